"""Operations of migrations. Django takes no module for a migration whose name begins like this one's."""

from resources.migrations._operations import AddIndexBesideWriters

__all__ = ["AddIndexBesideWriters"]
