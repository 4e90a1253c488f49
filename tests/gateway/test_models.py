"""What `/v1/models` tells is what the client's `Model` has."""

from shoal.client.models import Model
from shoal.gateway.models import ModelObject

#: Of OpenAI's shape, and always the same here.
OPENAI = {"object", "created", "owned_by"}


def test_the_client_leaves_nothing_out() -> None:
    assert set(Model.__struct_fields__) == set(ModelObject.__struct_fields__) - OPENAI
