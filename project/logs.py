"""Structured logs: one JSON object a line, to standard output."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from retry import routes

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "request", "data"}


class JsonFormatter(logging.Formatter):
    """Writes a record and its `extra` fields as JSON. Redacts paths alone: other secrets must not be logged."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    """Its text. What Django says of a request ends with its path, in whose place its route stands."""
    request: Any = getattr(record, "request", None)
    if not hasattr(request, "resolver_match") or not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    return str(record.msg) % (*record.args[:-1], routes.route(request))


class ExceptionsOnly(logging.Filter):
    """Lets answers pass that an exception made, not those that were meant."""

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(record.exc_info)


def logging_configuration(level: str) -> dict[str, Any]:
    """A dictConfig for every process of the site."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"exceptions": {"()": "project.logs.ExceptionsOnly"}},
        "formatters": {"json": {"()": "project.logs.JsonFormatter"}},
        "handlers": {"stdout": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "json"}},
        "root": {"handlers": ["stdout"], "level": level},
        "loggers": {
            # Django's own default handlers would write each line a second time.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # A 404 or 503 that was meant is no warning; exceptions are errors and are kept.
            "django.request": {"handlers": [], "level": "ERROR", "propagate": True, "filters": ["exceptions"]},
            # One line a task is too much: what a task does is counted.
            "celery.app.trace": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
        },
    }
