"""Django's list of the models of this app: each package of resources has its own."""

from .fetch.models import FetchDomain, FetchHeader, FetchTiming
from .mirror.models import Batch, BatchItem, Blob, MirroredHost, Resource, Rule, Tally, Validator
from .tiles.models import Layer, validate_seconds, whole_world
from .tokens.models import ApiToken

__all__ = [
    "ApiToken",
    "Batch",
    "BatchItem",
    "Blob",
    "FetchDomain",
    "FetchHeader",
    "FetchTiming",
    "Layer",
    "MirroredHost",
    "Resource",
    "Rule",
    "Tally",
    "Validator",
    "validate_seconds",
    "whole_world",
]
