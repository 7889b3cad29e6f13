"""Structured logs: one JSON object a line, to standard output."""

import logging
from datetime import UTC, datetime
from typing import Any

from django.utils.log import CallbackFilter
from pythonjsonlogger import json
from pythonjsonlogger.core import RESERVED_ATTRS

from retry import routes

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class JsonFormatter(json.JsonFormatter):
    """Writes a record and its `extra` fields as JSON. Redacts paths alone: other secrets must not be logged."""

    def __init__(self) -> None:
        super().__init__(
            ["created", "levelname", "name", "message"],
            rename_fields={"created": "time", "levelname": "level", "name": "logger", "exc_info": "exception"},
            reserved_attrs=[*RESERVED_ATTRS, "taskName", "request", "data"],
            json_default=str,
            json_ensure_ascii=False,
        )

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        super().add_fields(log_data, record, message_dict)
        log_data["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data["level"] = record.levelname.lower()
        log_data["message"] = _message_text(record)


def _message_text(record: logging.LogRecord) -> str:
    """The text of the record. Django's messages about a request end with its path, replaced here by its route."""
    request: Any = getattr(record, "request", None)
    if not hasattr(request, "resolver_match") or not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    return str(record.msg) % (*record.args[:-1], routes.route_pattern(request))


def soften_refusal(record: logging.LogRecord) -> bool:
    """Makes the error of a request that Django refuses a warning without traceback: any client may cause it.

    Returns False if warnings are not logged.
    """
    if not record.name.startswith("django.security."):
        return True
    record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
    return logging.getLogger(record.name).isEnabledFor(record.levelno)


def logging_configuration(level: str) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {
            "exceptions": {"()": CallbackFilter, "callback": lambda record: bool(record.exc_info)},
            "refusals": {"()": CallbackFilter, "callback": soften_refusal},
        },
        "formatters": {"json": {"()": "project.logs.JsonFormatter"}},
        "handlers": {
            "stdout": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stdout",
                "formatter": "json",
                # The loggers of refused requests are many: a filter of theirs would have to name each.
                "filters": ["refusals"],
            }
        },
        "root": {"handlers": ["stdout"], "level": level},
        "loggers": {
            # Django's own default handlers would write each line a second time.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # A 404 or 503 that was meant is no warning; exceptions are errors and are kept.
            "django.request": {"handlers": [], "level": "ERROR", "propagate": True, "filters": ["exceptions"]},
            # One line a task is too much: tasks are counted.
            "celery.app.trace": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
        },
    }
