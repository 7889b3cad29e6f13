"""Tells schemathesis the stored names, and to send JSON lines as text; records the answers.

KNOWN is JSON: by operation, values of its parameters for stored things. ANSWERED is a file, a line for each call:
status, method, address as the description has it.
"""

import json
import os
from pathlib import Path
from typing import Any

import schemathesis

KNOWN: dict[str, dict[str, str]] = json.loads(os.environ["KNOWN"])
ANSWERED = Path(os.environ["ANSWERED"])


@schemathesis.serializer("application/x-ndjson", "application/jsonl")
def send_text(_: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


@schemathesis.hook
def before_load_schema(_: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Stored things are sent as examples, with the description's own."""
    for operations in raw_schema["paths"].values():
        for operation in operations.values():
            known = KNOWN.get(operation["operationId"], {})
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in known:
                    parameter["example"] = known[parameter["name"]]


@schemathesis.hook
def after_call(_: schemathesis.HookContext, case: schemathesis.Case[Any], response: schemathesis.Response) -> None:
    with ANSWERED.open("a") as file:
        file.write(f"{response.status_code} {case.method.upper()} {case.path}\n")
