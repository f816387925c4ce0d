"""Settings of the store process."""

from __future__ import annotations

from pathlib import Path

from hermes_contracts.installation import DATABASE, PORT_DATABASE
from hermes_service.settings import ProcessSettings


class StoreSettings(ProcessSettings):
    """Where the database is, how hard it may be used, and how long things are kept."""

    database_host: str = "127.0.0.1"
    database_port: int = PORT_DATABASE
    database_name: str = DATABASE
    database_owner_password_file: Path = Path("/run/hermes/postgres/owner-password")
    database_service_password_file: Path = Path("/run/hermes/postgres/service-password")
    database_sslmode: str = "prefer"
    database_connections: int = 16
    """Most connections for requests; four more relay the outbox."""
    database_allow_unsafe: bool = False
    """Be ready although the database may forget what it acknowledged (fsync or full_page_writes off)."""
    concurrency: int = 64
    """Requests handled at once; more wait in the connection's queue."""
    outbox_keep_seconds: int = 86_400
    """Relayed events and outbound parts stay this long, to be sent again when their message comes again."""
    turn_detail_keep_seconds: int = 8 * 86_400
    """Step and journal rows of settled turns stay this long; turn rows stay for good, and 7 days is the least."""
    archive_bus_mebibytes: int = 4096
    """Most of the bus's disk that files of workspaces of kind Archive take, all sessions together."""
    archive_s3_bucket: str = ""
    """Keep those files here instead of on the bus."""
    archive_s3_prefix: str = ""
    archive_s3_endpoint: str = ""
    """Empty: Amazon's."""
    archive_s3_region: str = ""
    archive_s3_credentials: Path | None = None
    """Folder with `access-key-id` and `secret-access-key`; None: what the SDK finds."""
