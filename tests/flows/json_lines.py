"""Teaches schemathesis to send JSON lines: text, as the description says, whatever stands in it."""

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/jsonl")
def send_text(_: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
