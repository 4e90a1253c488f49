"""Why a broker refuses us at the first connect, and what to do: the client library's errors as ours."""

from __future__ import annotations

import ssl

from nats import errors

from shoal.errors import BrokerError


def refusal(error: Exception) -> BrokerError | None:
    """None where it is no refusal, and another try may go well."""
    if "uthoriz" in str(error) or "uthentic" in str(error):
        return BrokerError(
            f"the broker refuses us ({told(error)}): check broker_credentials, broker_token "
            "or the user in broker_url"
        )
    if isinstance(error, errors.SecureConnRequiredError):
        return BrokerError(
            "TLS was asked for (tls:// or broker_ca) but the broker does not offer it"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerError(
            f"the broker's certificate is not trusted ({error.verify_message}): "
            "set broker_ca to the CA that signed it"
        )
    return None


def told(error: Exception) -> str:
    """What it says; some say nothing but their name."""
    return str(error) or type(error).__name__
