"""OpenAI's Responses, as far as they keep nothing: `/v1/responses`."""
