"""The one clock of the dashboard, and the time zone of its reader; tests replace both."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from zoneinfo import ZoneInfo

from streamlit.runtime.scriptrunner import get_script_run_ctx


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(timezone.utc)


def zone() -> tzinfo:
    """Return the time zone of the browser that shows the page, UTC outside of a page."""
    # st.context.timezone records its use, which takes longer than to format a time.
    ctx = get_script_run_ctx(suppress_warning=True)
    browser = None if ctx is None else ctx.context_info
    return zone_named(None if browser is None else browser.timezone)


def zone_named(name: str | None) -> tzinfo:
    """Return the zone of this name, UTC for none: the name comes from a browser."""
    try:
        return ZoneInfo(name) if name else timezone.utc
    except (KeyError, ValueError, OSError):
        # An unknown name is a KeyError, a path outside the database a ValueError, a folder an
        # OSError.
        return timezone.utc
