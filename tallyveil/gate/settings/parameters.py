"""PostgreSQL's parameters that users may set and that change no answer here: how PostgreSQL plans
and runs a statement, what it writes to its log, how it vacuums.

Values are read as PostgreSQL reads them, kept for SHOW, and have no other effect. Where another
value would change an answer, or names something that does not exist here, only the default is
offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tallyveil.gate.settings import values as read
from tallyveil.gate.settings.values import Setting

__all__ = ["WITHOUT_EFFECT"]

_ON: Final = """
    array_nulls check_function_bodies debug_pretty_print enable_async_append enable_bitmapscan
    enable_distinct_reordering enable_gathermerge enable_group_by_reordering enable_hashagg
    enable_hashjoin enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material
    enable_memoize enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash
    enable_partition_pruning enable_presorted_aggregate enable_self_join_elimination enable_seqscan
    enable_sort enable_tidscan escape_string_warning geqo jit jit_expressions jit_tuple_deforming
    md5_password_warnings parallel_leader_participation row_security synchronize_seqscans
    vacuum_truncate
"""

_OFF: Final = """
    debug_print_parse debug_print_plan debug_print_rewritten enable_partitionwise_aggregate
    enable_partitionwise_join exit_on_error quote_all_identifiers trace_notify trace_sort
    transform_null_equals
"""

# The default, the least and the greatest value, and the unit of numbers without one.
_WHOLE: Final = """
    backend_flush_after 0 0 256 8kB
    client_connection_check_interval 0 0 2147483647 ms
    commit_siblings 5 0 1000
    default_statistics_target 100 1 10000
    effective_cache_size 4GB 1 2147483647 8kB
    effective_io_concurrency 16 0 1000
    from_collapse_limit 8 1 2147483647
    geqo_effort 5 1 10
    geqo_generations 0 0 2147483647
    geqo_pool_size 0 0 2147483647
    geqo_threshold 12 2 2147483647
    gin_fuzzy_search_limit 0 0 2147483647
    gin_pending_list_limit 4MB 64 2147483647 kB
    idle_in_transaction_session_timeout 0 0 2147483647 ms
    idle_session_timeout 0 0 2147483647 ms
    io_combine_limit 128kB 1 128 8kB
    join_collapse_limit 8 1 2147483647
    lock_timeout 0 0 2147483647 ms
    log_parameter_max_length_on_error 0 -1 1073741823 B
    logical_decoding_work_mem 64MB 64 2147483647 kB
    maintenance_io_concurrency 16 0 1000
    maintenance_work_mem 64MB 64 2147483647 kB
    max_parallel_maintenance_workers 2 0 1024
    max_parallel_workers 8 0 1024
    max_parallel_workers_per_gather 2 0 1024
    min_parallel_index_scan_size 512kB 0 715827882 8kB
    min_parallel_table_scan_size 8MB 0 715827882 8kB
    tcp_keepalives_count 0 0 2147483647
    tcp_keepalives_idle 0 0 2147483647 s
    tcp_keepalives_interval 0 0 2147483647 s
    tcp_user_timeout 0 0 2147483647 ms
    temp_buffers 8MB 100 1073741823 8kB
    transaction_timeout 0 0 2147483647 ms
    vacuum_buffer_usage_limit 2MB 128 16777216 kB
    vacuum_cost_limit 200 1 10000
    vacuum_cost_page_dirty 20 0 10000
    vacuum_cost_page_hit 1 0 10000
    vacuum_cost_page_miss 2 0 10000
    vacuum_failsafe_age 1600000000 0 2100000000
    vacuum_freeze_min_age 50000000 0 1000000000
    vacuum_freeze_table_age 150000000 0 2000000000
    vacuum_multixact_failsafe_age 1600000000 0 2100000000
    vacuum_multixact_freeze_min_age 5000000 0 1000000000
    vacuum_multixact_freeze_table_age 150000000 0 2000000000
    wal_sender_timeout 1min 0 2147483647 ms
    wal_skip_threshold 2MB 0 2147483647 kB
    work_mem 4MB 64 2147483647 kB
"""

_REAL: Final = """
    cpu_index_tuple_cost 0.005 0 1.79769e+308
    cpu_operator_cost 0.0025 0 1.79769e+308
    cpu_tuple_cost 0.01 0 1.79769e+308
    cursor_tuple_fraction 0.1 0 1
    geqo_seed 0 0 1
    geqo_selection_bias 2 1.5 2
    hash_mem_multiplier 2 1 1000
    jit_above_cost 100000 -1 1.79769e+308
    jit_inline_above_cost 500000 -1 1.79769e+308
    jit_optimize_above_cost 500000 -1 1.79769e+308
    parallel_setup_cost 1000 0 1.79769e+308
    parallel_tuple_cost 0.1 0 1.79769e+308
    random_page_cost 4 0 1.79769e+308
    recursive_worktable_factor 10 0.001 1e+06
    seq_page_cost 1 0 1.79769e+308
    vacuum_cost_delay 0 0 100 ms
    vacuum_max_eager_freeze_failure_rate 0.03 0 1
"""

# The default comes first.
_CHOICES: Final = """
    backslash_quote safe_encoding on off
    constraint_exclusion partition on off
    debug_logical_replication_streaming buffered immediate
    debug_parallel_query off on regress
    default_toast_compression pglz lz4
    file_copy_method copy clone
    icu_validation_level warning disabled debug5 debug4 debug3 debug2 debug1 log notice error
    plan_cache_mode auto force_generic_plan force_custom_plan
    stats_fetch_consistency cache none snapshot
    synchronous_commit on off local remote_write remote_apply
    xmlbinary base64 hex
    xmloption content document
"""

_TEXTS: Final = {
    "createrole_self_grant": "",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_text_search_config": "pg_catalog.simple",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "local_preload_libraries": "",
    "restrict_nonsystem_relation_kind": "",
    "temp_tablespaces": "",
    "timezone_abbreviations": "Default",
}

# How a constant is read, how an error ends the session, how the catalogs write names.
_DEFAULT_ONLY: Final = frozenset(
    {
        "array_nulls",
        "backslash_quote",
        "exit_on_error",
        "quote_all_identifiers",
        "transform_null_equals",
        *_TEXTS,
    }
)


def _settings() -> Iterator[tuple[str, Setting]]:
    for default, names in (("on", _ON), ("off", _OFF)):
        yield from ((name, Setting(default, read.switch)) for name in names.split())
    for whole, table in ((True, _WHOLE), (False, _REAL)):
        for line in table.split("\n")[1:-1]:
            name, default, least, most, *unit = line.split()
            yield name, Setting(default, read.number(least, most, *unit, whole=whole))
    for line in _CHOICES.split("\n")[1:-1]:
        name, *words = line.split()
        yield name, Setting(words[0], read.one_of(*words))
    yield from ((name, Setting(default, read.label)) for name, default in _TEXTS.items())


WITHOUT_EFFECT: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        name: Setting(one.default, read.only(one.default, one.read))
        if name in _DEFAULT_ONLY
        else one
        for name, one in _settings()
    }
)
