"""The place of a job in the line of its domain, for people who wait. The waiting instance loads this module.

So it imports neither models nor the rules of politeness.
"""

from retry.scripts import ScriptCall
from retry.stores import Steps


def count_jobs_before(work_key: str) -> Steps[int | None]:
    """Returns the number of jobs that its domain gets before that of the work.

    None if it is being requested, waits for a later try, or has no job. The lane (RETRY_LANES) names this function.
    """
    before = yield ScriptCall("state", "fetch.line", (), [work_key])
    assert isinstance(before, int)
    return None if before < 0 else before
