"""All settings, from the environment. docs/settings.md lists them with defaults and units."""

import os
import sysconfig
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from resources.disk.shares import LEAST_BYTES

from . import disk, processes, schedule
from .environment import (
    OWN_HUB,
    Environment,
    celery_broker,
    choose_hub,
    django_cache,
    explain_polling_only,
    load_remembered,
    may_be_reached,
    own_store_url,
    read_boot_id,
    read_machine,
    storage_from,
)
from .logs import LOG_LEVELS, logging_configuration
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory

env = Environment()

# Directories
DATA_DIR = Path(env.text("DATA_DIR", str(BASE_DIR / "var"))).resolve()
_data = DataDirectory(DATA_DIR)
_elsewhere = env.switch("DEBUG", False)  # a development server beside the site has an address of its own
for _name, _value in load_remembered(_data.environment).items():
    if not (_elsewhere and _name == "PUBLIC_URL"):
        os.environ.setdefault(_name, _value)
RUNTIME_DIR = Path(env.text("RUNTIME_DIR", str(runtime_directory(DATA_DIR).root)))
_runtime = RuntimeDirectory(RUNTIME_DIR)

# The smallest set of processes: other defaults below follow it
SMALL = env.switch("SMALL", False)

# Databases and files, of which some are on this machine's disk
_database = env.database("DATABASE_URL", f"sqlite:///{_data.database}")
_storage = storage_from(env.text("STORAGE_URL", f"file://{_data.blobs}"))

# The bound of this machine's disk: the site's data are measured at the start, and all parts have shares of the rest
DISK_MAX_BYTES = env.bound("DISK_MAX_BYTES", 2_000_000_000 if SMALL else 0, least=LEAST_BYTES)
DISK_PLACES = disk.find_places(_data, _runtime, _database, _storage)
DISK_ACCOUNT = _data.disk_account
DISK_SHARES = disk.load_shares(_data.disk_shares, DISK_MAX_BYTES, DISK_PLACES)
_disk = DISK_SHARES or disk.UNBOUNDED

# Security
DEBUG = env.switch("DEBUG", False)
_key_file = Path(env.text("SECRET_KEY_FILE", str(_data.secret_key)))
SECRET_KEY = env.text("SECRET_KEY", "") or (_key_file.read_text().strip() if _key_file.is_file() else "")
if DEBUG and not SECRET_KEY:
    SECRET_KEY = "for-development-only"  # noqa: S105
SECRET_KEY_FALLBACKS: list[str] = env.words("SECRET_KEY_FALLBACKS")
PUBLIC_URL = env.text("PUBLIC_URL", "").rstrip("/")
_public = urlsplit(PUBLIC_URL)
_secure = _public.scheme == "https"
ALLOWED_HOSTS: list[str] = env.words(
    "ALLOWED_HOSTS", default=[host for host in (_public.hostname, "localhost", "127.0.0.1", "[::1]") if host]
)
TRUSTED_PROXIES = tuple(env.words("TRUSTED_PROXIES"))
LOGIN_REDIRECT_URL = "admin:index"  # for users who did not come from one of its pages
CSRF_FAILURE_VIEW = "project.middleware.answer_unsigned_form"
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"] if _public.netloc else []
METRICS_TOKEN = env.text("METRICS_TOKEN", "")
ADMIN_SIGN_INS = env.whole("ADMIN_SIGN_INS", 10, least=0)
ADMIN_SIGN_INS_PER_ACCOUNT = env.whole("ADMIN_SIGN_INS_PER_ACCOUNT", 100, least=0)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _secure
SECURE_HSTS_SECONDS = env.whole("HSTS_SECONDS", 3600, least=0) if _secure else 0
if not DEBUG:
    # nginx sets it on every request, to the scheme of PUBLIC_URL; a client's own is dropped.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
_waiting = urlsplit(env.text("RETRY_AFTER_SERVER", ""))
_tiles = f" {_waiting.scheme}://{_waiting.netloc}" if _waiting.netloc else ""  # tiles may come from there
CONTENT_SECURITY_POLICY = (
    f"default-src 'self'; img-src 'self' data:{_tiles}; connect-src 'self'{_tiles}; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # whether HSTS covers subdomains,
    "security.W021",  # or is preloaded, the domain's owner decides
    "security.W008",  # redirects from http to https belong to the proxy that speaks TLS
]
UPLOAD_MAX_BYTES = min(env.whole("UPLOAD_MAX_BYTES", 200_000_000), _disk.upload_max_bytes)
UPLOADS_DIRECTORY = _data.uploads
FILE_UPLOAD_TEMP_DIR = _data.uploads if _data.uploads.is_dir() else None  # made by `make run`

# The two Redis servers and the deferral protocol
STATE_LISTEN, STATE_PASSWORD = env.text("STATE_LISTEN", ""), env.text("STATE_PASSWORD", "")
CACHE_LISTEN, CACHE_PASSWORD = env.text("CACHE_LISTEN", ""), env.text("CACHE_PASSWORD", "")
REDIS_URL = env.text("REDIS_URL", own_store_url(_runtime.socket("state"), STATE_PASSWORD))
CACHE_URL = env.text("CACHE_URL", own_store_url(_runtime.socket("cache"), CACHE_PASSWORD))
QUEUES_URL = env.text("QUEUES_URL", "")
SEEN_URL = env.text("SEEN_URL", "") or CACHE_URL
STATE_MAX_BYTES = min(env.whole("STATE_MAX_BYTES", (128 if SMALL else 1024) * 1024 * 1024), _disk.state_max_bytes)
STATE_PARTITIONS = env.whole("STATE_PARTITIONS", 16 if REDIS_URL.startswith("rediscluster:") else 1)
CACHE_MAX_BYTES = env.whole("CACHE_MAX_BYTES", (64 if SMALL else 256) * 1024 * 1024)
RETRY_AFTER_SERVER = env.text("RETRY_AFTER_SERVER", "/retry_after")
RETRY_LISTEN = env.text("RETRY_LISTEN", "")
DEFAULT_RETRY_TIMEOUT = env.number("DEFAULT_RETRY_TIMEOUT", 25)
RETRY_MAX_WAITS = env.whole("RETRY_MAX_WAITS", 2)
PAGE_PATIENCE_SECONDS = env.number("PAGE_PATIENCE_SECONDS", 2)
RETRY_DELIVERY = env.text("RETRY_DELIVERY", "redirect")
RETRY_MAX_CLIENTS = env.whole("RETRY_MAX_CLIENTS", 20_000)
RETRY_MAX_STREAMS = env.whole("RETRY_MAX_STREAMS", 1_000)
RETRY_STREAMS = {"/api/entries/stream": "feeds.change_stream.STREAM"}  # nginx' waiting.conf names the paths too
RETRY_CLIENTS_PER_ADDRESS = env.whole("RETRY_CLIENTS_PER_ADDRESS", 0, least=0)
RETRY_FRONT = env.text("RETRY_FRONT", "")
RETRY_INSTANCE = env.text("RETRY_INSTANCE", "")
RETRY_TICKET_SECONDS = env.number("RETRY_TICKET_SECONDS", 600)
RETRY_LEASE_SECONDS = env.number("RETRY_LEASE_SECONDS", 15)
RETRY_MAX_PREPARE_SECONDS = env.number("RETRY_MAX_PREPARE_SECONDS", 120)
RETRY_DONE_SECONDS = env.number("RETRY_DONE_SECONDS", 10)
RETRY_REDIS_TIMEOUT = env.number("RETRY_REDIS_TIMEOUT", 0.3)
RETRY_BACKOFF_BASE_SECONDS = env.number("RETRY_BACKOFF_BASE_SECONDS", 2)
RETRY_BACKOFF_MAX_SECONDS = env.number("RETRY_BACKOFF_MAX_SECONDS", 600)
RETRY_SKIP_SECONDS = env.number("RETRY_SKIP_SECONDS", max(30, DEFAULT_RETRY_TIMEOUT + 5))
RETRY_SKIP_BACKLOG_SECONDS = env.number("RETRY_SKIP_BACKLOG_SECONDS", 10)
RETRY_AGE_SECONDS = env.number("RETRY_AGE_SECONDS", 30)
PROXY_TIMEOUT = env.number("PROXY_TIMEOUT", 40)
ADMIN_TIMEOUT = env.number("ADMIN_TIMEOUT", 120)
HOT_SECONDS = env.number("HOT_SECONDS", 5)
HOT_MAX_BYTES = min(env.whole("HOT_MAX_BYTES", 1024 * 1024 * 1024), _disk.hot_max_bytes)
BACKLOG_LIMIT = env.whole("BACKLOG_LIMIT", 500)
OBSERVE = env.switch("OBSERVE", True)
POPULAR_REQUESTS = env.number("POPULAR_REQUESTS", 10)
POPULARITY_HALF_LIFE_SECONDS = env.number("POPULARITY_HALF_LIFE_SECONDS", 21_600)
POPULARITY_KEYS = env.whole("POPULARITY_KEYS", 20_000 if SMALL else 100_000)

# Counted traffic of the front: beginnings of addresses, and the functions that name the content they ask for
TRAFFIC = {
    "/tiles/": "resources.tiles.tile_address.parse_requested_tile",
    "/staticmap": "resources.staticmap.classify_address",
    "/resources/": "resources.mirror.public_files.classify_address",
    "/feeds/": "feeds.pages.work.describe_request",
}
CONTENT_ADDRESSES = tuple(TRAFFIC)  # beginnings of addresses that neither users nor forms have to do with
TRAFFIC_ARGUMENTS = {  # the arguments that name content: the log has them
    "/staticmap": ("layers", "center", "zoom", "size", "format"),
    "/resources/": ("fit",),
}
TRAFFIC_READERS = ("/feeds/",)  # addresses for which the log has a number for the client
# By kind, the functions that are told which of its contents were wanted
TRAFFIC_NOTED = {
    "feed": "feeds.followers.note_readers",
    "feeds": "feeds.followers.note_combination_readers",
    "blob": "resources.mirror.storage.retention.note_blobs",
    "resource": "resources.mirror.storage.retention.note_urls",
    "thumbnail": "resources.mirror.storage.retention.note_blobs",
}
# By kind, the functions that name the work of popular content for pre-warming, beside tiles
PREWARM = {
    **dict.fromkeys(("feed", "feeds"), "feeds.views.warm_piece"),
    "staticmap": "resources.staticmap.warm_static_map",
    "thumbnail": "resources.mirror.views.warm_thumbnail",
}
PREWARM_FRONT = RETRY_FRONT or f"unix:{_runtime.socket('front')}"
PREWARM_SECONDS = env.number("PREWARM_SECONDS", 300)
PREWARM_BUDGET_SECONDS = env.number("PREWARM_BUDGET_SECONDS", PREWARM_SECONDS / (50 if SMALL else 5))
PREWARM_POPULAR = env.whole("PREWARM_POPULAR", 200 if SMALL else 1000)
TRAFFIC_LOG = _data.traffic
TRAFFIC_LOG_MAX_BYTES = min(env.whole("TRAFFIC_LOG_MAX_BYTES", 64_000_000), _disk.traffic_log_bytes)
NGINX_PID_FILE = _runtime.nginx_pid
DRAIN_FILE = _runtime.draining

# Processes
PORT = env.whole("PORT", 8000)
LISTEN = env.text("LISTEN", "127.0.0.1")
DEMO = env.switch("DEMO", True)
ROLES = env.some("ROLES", processes.ROLES)
FRONTS = tuple(env.words("FRONTS"))
MAIN_LISTEN = env.text("MAIN_LISTEN", "")
METRICS_LISTEN = env.text("METRICS_LISTEN", "")
RETRY_INSTANCE_LISTEN = env.text("RETRY_INSTANCE_LISTEN", "")
MAIN_SERVERS: list[str] = env.words("MAIN_SERVERS")
RETRY_SERVERS: list[str] = env.words("RETRY_SERVERS")
DRAIN_SECONDS = env.number("DRAIN_SECONDS", 0)
RELEASE = env.switch("RELEASE", True)
MAIN_WORKERS = env.processes("MAIN_WORKERS", 1 if SMALL else 2)
MAIN_THREADS = env.whole("MAIN_THREADS", 4 if SMALL else 8)
RETRY_WORKERS = env.processes("RETRY_WORKERS", 1)
PAINT_WORKERS = env.processes("PAINT_WORKERS", 1 if SMALL else len(os.sched_getaffinity(0)))
REFRESH_WORKERS = env.processes("REFRESH_WORKERS", 1)
WARM_WORKERS = env.processes("WARM_WORKERS", 1)
WORK_WORKERS = env.processes("WORK_WORKERS", 1)
FETCHERS = env.processes("FETCHERS", 1 if SMALL else min(2, len(os.sched_getaffinity(0))))
FETCH_IN_FLIGHT = env.whole("FETCH_IN_FLIGHT", 2)
MIRROR_BACKLOG = env.whole("MIRROR_BACKLOG", 2000)
FEEDS_BACKLOG = env.whole("FEEDS_BACKLOG", 2000 if SMALL else 10_000)
_fetched = {"first_partition": True, "publisher": "resources.fetch.dispatch.publish", "workers": FETCH_IN_FLIGHT}
_fetched |= {"line": "resources.fetch.frontier.queue.count_jobs_before"}
_warm = (6 if SMALL else 150) * BACKLOG_LIMIT
_painted = {"limit": BACKLOG_LIMIT, "workers": PAINT_WORKERS, "interactive": True, "skips": True}
RETRY_LANES = {  # the fastest first
    "paint.now": {**_painted},
    "paint.pages": {**_painted, "up": "paint.now"},
    "paint.refresh": {"limit": 4 * BACKLOG_LIMIT, "workers": REFRESH_WORKERS, "skips": True, "up": "paint.now"},
    "paint.warm": {"limit": _warm, "workers": WARM_WORKERS, "up": "paint.refresh"},
    # Fetched work mostly waits for one server, and its politeness makes it as slow as with few workers.
    "fetch.fast": {**_fetched, "limit": BACKLOG_LIMIT, "interactive": True, "skips": True},
    "fetch.slow": {**_fetched, "limit": BACKLOG_LIMIT, "interactive": True, "skips": True},
    "fetch.refresh": {**_fetched, "limit": 4 * BACKLOG_LIMIT, "skips": True, "up": "fetch.fast"},
    "fetch.ingest": {**_fetched, "limit": MIRROR_BACKLOG},
    "fetch.large": {**_fetched, "limit": MIRROR_BACKLOG},
    "fetch.calls": {**_fetched, "limit": BACKLOG_LIMIT},
    "fetch.supplements": {**_fetched, "limit": BACKLOG_LIMIT},
    "fetch.feeds": {**_fetched, "limit": FEEDS_BACKLOG, "up": "fetch.fast"},
    "fetch.hub": {**_fetched, "limit": 1400 if SMALL else 15_000},
    "fetch.laggards": {**_fetched, "limit": 200 if SMALL else 2000},
    "fetch.warm": {**_fetched, "limit": _warm, "up": "fetch.refresh"},
    "upload": {"publisher": "resources.mirror.storage.uploads.publish_upload", "workers": 4, "limit": BACKLOG_LIMIT},
}
RETRY_LANE_WORKERS = "project.lane_workers.count_lane_workers"
RETRY_WORKER_NEEDS: tuple[str, ...] = ("resources.database.lacks_database", "resources.database.lacks_storage")

# Layers
LAYER_MAX_BYTES = env.whole("LAYER_MAX_BYTES", 100_000_000)
LAYER_MAX_POSITIONS_PER_LINE = env.whole("LAYER_MAX_POSITIONS_PER_LINE", 250_000)
LAYER_COMPILE_SECONDS = env.number("LAYER_COMPILE_SECONDS", 60)
LAYER_COMPILE_BYTES = env.whole("LAYER_COMPILE_BYTES", 3_000_000_000)
LAYER_COMPILED_AT_ONCE = env.whole("LAYER_COMPILED_AT_ONCE", 1 if SMALL else 2)
LAYER_SNAPSHOT_SECONDS = env.number("LAYER_SNAPSHOT_SECONDS", 0.5)
LAYER_BLOCK_SECONDS = env.number("LAYER_BLOCK_SECONDS", 0.5)
LAYER_SCENES_KEPT = env.whole("LAYER_SCENES_KEPT", 8)

# The API
API_ROUTERS = ["feeds.api.manage.router"]  # those of other apps, by their dotted paths
API_CALLS_PER_MINUTE = env.whole("API_CALLS_PER_MINUTE", 600, least=0)
API_URLS_PER_MINUTE = env.whole("API_URLS_PER_MINUTE", 200_000, least=0)

# Fetching
FETCH_TASKS = {  # by the name of a task, the dotted path of a resources.fetch.task.FetchTask
    "resources.fetch_tile": "resources.tiles.upstream.fetch_task.TASK",
    "resources.mirror": "resources.mirror.ingest.fetch_task.TASK",
    "resources.call_webhook": "resources.mirror.reports.webhooks.TASK",
    "feeds.fetch": "feeds.scan.fetch_task.TASK",
    "feeds.supplement": "feeds.scan.supplement_task.TASK",
    "feeds.ask_hub": "feeds.subscriptions.fetch_task.TASK",
    "feeds.announce": "feeds.subscriptions.own_hub.TASK",
    "feeds.verify_subscriber": "feeds.hub.fetch_task.VERIFICATION",
    "feeds.deliver": "feeds.hub.fetch_task.DELIVERY",
    "feeds.call_webhook": "feeds.change_calls.TASK",
}
FETCH_SLOTS = env.whole("FETCH_SLOTS", 20 if SMALL else 100, least=2)
SAMPLES = env.text("SAMPLES", "")  # where the front serves the demo's sample feeds, and nothing else
FETCH_ALLOW_PRIVATE: list[str] = [*env.words("FETCH_ALLOW_PRIVATE"), *filter(None, [SAMPLES])]
FETCH_EGRESS: list[str] = env.words("FETCH_EGRESS")
FETCH_CONTACT = env.text("FETCH_CONTACT", "")
FETCH_PORTS: list[str] = env.words("FETCH_PORTS", ["80", "443", "5337", "8000", "8080", "8443"])
FETCH_ALLOW_DOWNGRADE = env.switch("FETCH_ALLOW_DOWNGRADE", False)
FETCH_MAX_REDIRECTS = env.whole("FETCH_MAX_REDIRECTS", 10, least=0)
FETCH_CONNECT_SECONDS = env.number("FETCH_CONNECT_SECONDS", 10)
FETCH_HEAD_SECONDS = env.number("FETCH_HEAD_SECONDS", 30)
FETCH_DEADLINE_SECONDS = env.number("FETCH_DEADLINE_SECONDS", 30)
FETCH_SLOW_AFTER_SECONDS = env.number("FETCH_SLOW_AFTER_SECONDS", 10)
FETCH_SLOW_DEADLINE_SECONDS = env.number("FETCH_SLOW_DEADLINE_SECONDS", 300)
FETCH_MIN_BYTES_PER_SECOND = env.number("FETCH_MIN_BYTES_PER_SECOND", 1000)
FETCH_RATE_WINDOW_SECONDS = env.number("FETCH_RATE_WINDOW_SECONDS", 10)
FETCH_MAX_BYTES = min(env.whole("FETCH_MAX_BYTES", 25_000_000), _disk.file_max_bytes)
FETCH_TILE_MAX_BYTES = env.whole("FETCH_TILE_MAX_BYTES", 5_000_000)
FETCH_SLOW_MAX_BYTES = min(env.whole("FETCH_SLOW_MAX_BYTES", 2_000_000_000), _disk.file_max_bytes)
FETCH_SPOOL_BYTES = env.whole("FETCH_SPOOL_BYTES", 262_144)
FETCH_SPOOL_DIRECTORY = _data.spool
FETCH_ATTEMPTS = env.whole("FETCH_ATTEMPTS", 5)
FETCH_BACKOFF_BASE_SECONDS = env.number("FETCH_BACKOFF_BASE_SECONDS", 2)
FETCH_BACKOFF_MAX_SECONDS = env.number("FETCH_BACKOFF_MAX_SECONDS", 600)
FETCH_STALL_SECONDS = env.number("FETCH_STALL_SECONDS", 86_400)
FETCH_DELAY_SECONDS = env.number("FETCH_DELAY_SECONDS", 0.5)
# The ceilings of what is learnt are not below its start.
FETCH_MAX_PER_SECOND = env.number("FETCH_MAX_PER_SECOND", max(10, 1 / max(FETCH_DELAY_SECONDS, 0.001)))
FETCH_MAX_IN_FLIGHT = env.whole("FETCH_MAX_IN_FLIGHT", max(4, FETCH_IN_FLIGHT))
FETCH_BYTES_PER_SECOND = env.whole("FETCH_BYTES_PER_SECOND", 10_000_000, least=0)
FETCH_LEASE_SECONDS = env.number("FETCH_LEASE_SECONDS", 15)
FETCH_BACKLOG = env.whole("FETCH_BACKLOG", 100_000)
FETCH_DOMAIN_BACKLOG = env.whole("FETCH_DOMAIN_BACKLOG", 10_000)
FETCH_TIMINGS_DAYS = env.whole("FETCH_TIMINGS_DAYS", 30)

# Mirrored files
_machine, _installation = read_machine(_data.machine)
INSTALLATION = _installation and f"{_installation}.{read_boot_id()}"  # a copy of the data runs on another host
MACHINE = env.text("MACHINE", "") or _machine
MACHINE_URL = env.text("MACHINE_URL", "")
MIRROR_HELD_DIRECTORY = _data.held
MIRROR_ATTEMPTS = env.whole("MIRROR_ATTEMPTS", 3)
MIRROR_RETRY_SECONDS = env.number("MIRROR_RETRY_SECONDS", 300)
MIRROR_RECHECK = env.switch("MIRROR_RECHECK", False)
MIRROR_SAMPLED_FIRST = env.whole("MIRROR_SAMPLED_FIRST", 3, least=0)
MIRROR_SAMPLED_EVERY = env.whole("MIRROR_SAMPLED_EVERY", 20)
MIRROR_KNOWN_SECONDS = env.number("MIRROR_KNOWN_SECONDS", 2)
MIRROR_TRACKING: list[str] = env.words("MIRROR_TRACKING")
MIRROR_SHARDS: list[str] = env.words("MIRROR_SHARDS")
MIRROR_RULES_FILE = env.text("MIRROR_RULES_FILE", "")
MIRROR_RULES_SECONDS = env.number("MIRROR_RULES_SECONDS", 5)
MIRROR_TALLY_SECONDS = env.number("MIRROR_TALLY_SECONDS", 1)
MIRROR_REPORT_MAX_BYTES = env.whole("MIRROR_REPORT_MAX_BYTES", 22_000_000)
MIRROR_BATCH_DAYS = env.whole("MIRROR_BATCH_DAYS", 30)
MIRROR_FAILED_DAYS = env.whole("MIRROR_FAILED_DAYS", 90)
MIRROR_LEARNT_DAYS = env.whole("MIRROR_LEARNT_DAYS", 180)
MIRROR_TALLY_DAYS = env.whole("MIRROR_TALLY_DAYS", 400)
MIRROR_WEBHOOK_SECONDS = env.number("MIRROR_WEBHOOK_SECONDS", 86_400)
MIRROR_HOT_BYTES = env.whole("MIRROR_HOT_BYTES", min(16_000_000, HOT_MAX_BYTES // 10) if DISK_SHARES else 16_000_000)
MIRROR_DELIVERY = env.choice("MIRROR_DELIVERY", "proxy", ("proxy", "redirect"))
MIRROR_TRANSFER_SECONDS = env.number("MIRROR_TRANSFER_SECONDS", 60)
MIRROR_GRACE_SECONDS = env.number("MIRROR_GRACE_SECONDS", 600)
MIRROR_MAX_BYTES = env.whole("MIRROR_MAX_BYTES", 0, least=0)
MIRROR_KEEP_DAYS = env.number("MIRROR_KEEP_DAYS", 0)

# Feeds
FEEDS_LEAST_SECONDS = env.whole("FEEDS_LEAST_SECONDS", 900, least=60)
FEEDS_MOST_SECONDS = env.whole("FEEDS_MOST_SECONDS", 86_400, least=60)
FEEDS_KEEP_ENTRIES = env.whole("FEEDS_KEEP_ENTRIES", 1000)
FEEDS_KNOWN_SECONDS = env.number("FEEDS_KNOWN_SECONDS", 0.5)
FEEDS_SEARCH_SECONDS = env.number("FEEDS_SEARCH_SECONDS", 2.0)
FEEDS_STALE_SECONDS = env.whole("FEEDS_STALE_SECONDS", 86_400, least=0)
FEEDS_KEEP_DAYS = env.whole("FEEDS_KEEP_DAYS", 365, least=0)
FEEDS_REMOVALS_DAYS = env.whole("FEEDS_REMOVALS_DAYS", 30)
FEEDS_WEBHOOK_SECONDS = env.number("FEEDS_WEBHOOK_SECONDS", 86_400)
FEEDS_SCAN_SECONDS = env.whole("FEEDS_SCAN_SECONDS", 60)
FEEDS_MAX_BYTES = env.whole("FEEDS_MAX_BYTES", 25_000_000)
FEEDS_READERS = env.whole("FEEDS_READERS", 1 if SMALL else 2)
FEEDS_READER_IDLE_SECONDS = env.number("FEEDS_READER_IDLE_SECONDS", 10 if SMALL else 60)
FEEDS_READ_BYTES = env.whole("FEEDS_READ_BYTES", 1024 * 1024 * 1024)
FEEDS_READ_SECONDS = env.number("FEEDS_READ_SECONDS", 20)
FEEDS_PAGE_BYTES = env.whole("FEEDS_PAGE_BYTES", 5_000_000)
FEEDS_PUSH = env.switch("FEEDS_PUSH", may_be_reached(_public.hostname or ""))
FEEDS_PUSH_NOTE = "" if FEEDS_PUSH or env.text("FEEDS_PUSH", "") else explain_polling_only(PUBLIC_URL)  # said once
FEEDS_PUSH_RECENT_DAYS = env.number("FEEDS_PUSH_RECENT_DAYS", 14)
FEEDS_PUSH_LEAST_SUBSCRIBERS = env.whole("FEEDS_PUSH_LEAST_SUBSCRIBERS", 1, least=0)
FEEDS_PUSH_RENEW_HOURS = env.number("FEEDS_PUSH_RENEW_HOURS", 20)
FEEDS_PUSH_SPREAD_HOURS = env.number("FEEDS_PUSH_SPREAD_HOURS", 4)
FEEDS_PUSH_LEASE_DAYS = env.number("FEEDS_PUSH_LEASE_DAYS", 10)
FEEDS_PUSH_MAX_BYTES = env.whole("FEEDS_PUSH_MAX_BYTES", 2_000_000)
FEEDS_PUSH_COOL_SECONDS = env.number("FEEDS_PUSH_COOL_SECONDS", 15)
FEEDS_HUB = choose_hub(env.text("FEEDS_HUB", ""), _public.hostname or "")
FEEDS_HUB_SECONDS = env.whole("FEEDS_HUB_SECONDS", 60)
FEEDS_HUB_SUBSCRIBERS = env.whole("FEEDS_HUB_SUBSCRIBERS", 2000 if SMALL else 20_000)
FEEDS_HUB_TOPIC_SUBSCRIBERS = env.whole("FEEDS_HUB_TOPIC_SUBSCRIBERS", 2000 if SMALL else 15_000)
FEEDS_HUB_HOST_SUBSCRIBERS = env.whole("FEEDS_HUB_HOST_SUBSCRIBERS", 1000)
FEEDS_HUB_REQUESTS_PER_MINUTE = env.whole("FEEDS_HUB_REQUESTS_PER_MINUTE", 120)
FEEDS_HUB_LEASE_DAYS = env.number("FEEDS_HUB_LEASE_DAYS", 10)
FEEDS_HUB_MAX_LEASE_DAYS = env.number("FEEDS_HUB_MAX_LEASE_DAYS", 30)
FEEDS_HUB_MAX_BYTES = env.whole("FEEDS_HUB_MAX_BYTES", 1_000_000)
FEEDS_HUB_ANSWER_SECONDS = env.number("FEEDS_HUB_ANSWER_SECONDS", 5)
FEEDS_MAIL_AFTER_HOURS = env.number("FEEDS_MAIL_AFTER_HOURS", 24)

# Mail to the admins
MAIL_TO: list[str] = env.words("MAIL_TO")
MAIL_FROM = env.text("MAIL_FROM", f"tarry@{_public.hostname or 'localhost'}")
vars().update(env.mail("MAIL_URL", "smtp://localhost:25"))
EMAIL_TIMEOUT = 10

# Thumbnails of mirrored images
THUMBNAIL_MAX_SIDE = env.whole("THUMBNAIL_MAX_SIDE", 2048)
THUMBNAIL_SIZES: list[str] = env.words("THUMBNAIL_SIZES")
THUMBNAIL_MAX_PIXELS = env.whole("THUMBNAIL_MAX_PIXELS", 50_000_000)
THUMBNAIL_MAX_BYTES = env.whole("THUMBNAIL_MAX_BYTES", 50_000_000)
THUMBNAIL_MEMORY_BYTES = env.whole("THUMBNAIL_MEMORY_BYTES", 512 * 1024 * 1024)
THUMBNAIL_SECONDS = env.number("THUMBNAIL_SECONDS", 30)

# Django
_NINJA = Path(sysconfig.get_path("purelib")) / "ninja"
"""It is no app: it has no models, and would be loaded by each command."""
_OUR_APPS = ["retry", "resources", "feeds", "project"]
INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # project.urls finds its pages: commands need none of them
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *_OUR_APPS,
]
MIDDLEWARE = [
    *(["project.middleware.HotCacheMiddleware"] if DISK_SHARES else []),
    "retry.metrics.AccountingMiddleware",
    "project.middleware.PagePoliciesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "retry.html_pages.ProblemPagesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "project.middleware.LargeBodiesMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "DIRS": [BASE_DIR / "project" / "templates", _NINJA / "templates"],  # they replace those of the apps
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
APPEND_SLASH = False

# Databases and stores
DATABASES: dict[str, dict[str, Any]] = {"default": _database}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # Deferred transactions fail as soon as two processes write: each upgrades its read lock.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 5,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        + (f" PRAGMA journal_size_limit={DISK_MAX_BYTES // 64};" if DISK_SHARES else ""),
    }
    if "TARRY_INSTANCE" in os.environ:
        # Opening a connection takes longer than most queries: a fetcher would for each file, main for each ping.
        DATABASES["default"].update(CONN_MAX_AGE=60)
else:
    DATABASES["default"].update(CONN_MAX_AGE=60, CONN_HEALTH_CHECKS=True)
    # A machine that is cut off by dropped packets gets no answer for a quarter of an hour without these.
    _patience = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
    DATABASES["default"]["OPTIONS"] = {"connect_timeout": 2, **_patience, **DATABASES["default"].get("OPTIONS", {})}
_location, _options = django_cache(CACHE_URL)
_cache = {
    "LOCATION": _location,
    "KEY_PREFIX": "django",
    "OPTIONS": {
        "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
        "REDIS_CLIENT_CLASS": "retry.stores.BreakerClient",
        "SOCKET_TIMEOUT": RETRY_REDIS_TIMEOUT,
        "SOCKET_CONNECT_TIMEOUT": RETRY_REDIS_TIMEOUT,
        "IGNORE_EXCEPTIONS": True,  # while the server is away, nothing is found
        **_options,
    },
}
CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django_redis.cache.RedisCache", **_cache},
    "sessions": {"BACKEND": "project.backends.SessionCache", **_cache},
}
SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"
SESSION_CACHE_ALIAS = "sessions"
_static = "django.contrib.staticfiles.storage.StaticFilesStorage" if DEBUG else "project.backends.HashedStaticFiles"
STORAGES = {
    "default": _storage,
    "staticfiles": {"BACKEND": _static},
}
STATIC_URL = "/static/"
STATIC_ROOT = _data.static
STATICFILES_DIRS = [_NINJA / "static"]

# Celery
os.environ["CELERY_LOADER"] = "project.celery.DefaultLoader"
CELERY_BROKER_URL, QUEUES_OPTIONS = celery_broker(QUEUES_URL or REDIS_URL)
# Web processes must not wait: by default a silent broker would block a publish for ever. While some threads wait for
# it, requests wait for a thread: a request takes up to twice this time, and the time of its other calls to Redis.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **{"socket_timeout": RETRY_REDIS_TIMEOUT, "socket_connect_timeout": RETRY_REDIS_TIMEOUT},
    **{"max_retries": 0, "retry_on_timeout": False, **QUEUES_OPTIONS},
}
CELERY_BROKER_CONNECTION_TIMEOUT = RETRY_REDIS_TIMEOUT
CELERY_BROKER_CONNECTION_RETRY = False
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "work"
CELERY_TASK_TIME_LIMIT = int(RETRY_MAX_PREPARE_SECONDS) + 30  # a last resort: preparations have a limit of their own
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "project.beat:Scheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
MACHINE_QUEUE = schedule.machine_queue(MACHINE)
_making_room = (schedule.MAKING_ROOM,) if DISK_SHARES and DISK_PLACES.layers else ()
_own = [] if "work" not in ROLES else [*schedule.OWN, *_making_room, *((schedule.TRAFFIC,) if OBSERVE else ())]
CELERY_BEAT_SCHEDULE = schedule.beat_schedule(*_own, queue=MACHINE_QUEUE) | schedule.beat_schedule(
    *schedule.ALWAYS,
    (schedule.SCAN, schedule.SCAN_TASK, FEEDS_SCAN_SECONDS),
    *((schedule.DEMO,) if DEMO else ()),
    *((schedule.PRUNING,) if MIRROR_MAX_BYTES or MIRROR_KEEP_DAYS else ()),
    *((schedule.OWN_HUB if FEEDS_HUB == OWN_HUB else schedule.HUB,) if FEEDS_HUB else ()),
    *((schedule.READERS,) if OBSERVE else ()),
    *((("prewarm", "resources.prewarm", PREWARM_SECONDS), schedule.PREWARMED) if OBSERVE and PREWARM_SECONDS else ()),
)

LOGGING = logging_configuration(env.choice("LOG_LEVEL", "INFO", LOG_LEVELS))
