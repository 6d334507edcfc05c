"""Statements that ask a server for its settings, what an account may do, and which of our tables there are."""

OUR_TABLES = (
    "task_center", "task_run", "task_occurrence", "task_schedule", "task_worker", "task_scheduler", "task_sample",
    "task_lease", "task_action", "task_installation", "task_schema", "task_lock", "task_once",
    "task_limit", "task_limit_line", "task_limit_place", "task_queue",
    "task_alert", "task_delivery", "task_notice", "task_notice_alert", "task_robot", "task_rule", "task_silence",
    "task_watchdog",
)  # fmt: skip
"""All tables that are ours; in an application's own database others may be called task_… as well."""
_OURS = ", ".join(f"'{name}'" for name in OUR_TABLES)

NOTHING = "SELECT 1"
AUTOCOMMIT = "SELECT @@autocommit"

VARIABLES = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
  'version', 'version_comment', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit',
  'sync_binlog', 'log_bin', 'binlog_format', 'innodb_doublewrite', 'innodb_deadlock_detect', 'max_allowed_packet',
  'wait_timeout', 'max_connections', 'max_user_connections', 'innodb_lock_wait_timeout', 'tx_isolation',
  'transaction_isolation', 'time_zone', 'system_time_zone', 'max_statement_time', 'max_execution_time')
"""
SESSION = "SELECT CONNECTION_ID()"
CONNECTED = "SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected'"
# InnoDB tells when a transaction began by the clock on the server's wall.
TRANSACTIONS = """
SELECT trx_mysql_thread_id AS thread, trx_query AS statement, trx_isolation_level AS isolation,
  trx_rows_locked AS rows_locked, trx_rows_modified AS rows_changed,
  TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) AS age_s
FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) ORDER BY trx_started LIMIT 1
"""
PROCESSES = "SHOW FULL PROCESSLIST"
LAST_STATEMENT = """
SELECT e.SQL_TEXT FROM performance_schema.threads t
JOIN performance_schema.events_statements_current e ON e.THREAD_ID = t.THREAD_ID WHERE t.PROCESSLIST_ID = {thread}
"""
HISTORY = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
HISTORY_STATUS = "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length'"

ACCOUNT = "SELECT CURRENT_USER()"
GRANTS = "SHOW GRANTS"

TABLES = f"""
SELECT TABLE_NAME AS name, ENGINE AS engine, TABLE_COLLATION AS collation FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({_OURS})
"""
INDEXES = f"""
SELECT DISTINCT TABLE_NAME AS table_name, INDEX_NAME AS name FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({_OURS})
"""

SQLITE_VERSION = "SELECT sqlite_version()"
SQLITE_TABLES = f"SELECT name, tbl_name AS table_name, type FROM sqlite_master WHERE tbl_name IN ({_OURS})"
SQLITE_PRAGMAS = ("journal_mode", "synchronous", "page_size", "page_count", "foreign_keys")
