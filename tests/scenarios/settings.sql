-- Settings: what they exclude, what is refused, and the statements that clients send.

--- A cost and a target exclude each other.

SET dp.half_width TO 12.5;
SHOW dp.epsilon;
 ''
SHOW dp.half_width;
 12.5
SET dp.epsilon = '0.25';
SHOW dp.epsilon;
 0.25
SHOW dp.half_width;
 ''
RESET dp.epsilon;
SHOW dp.epsilon;
 0.1
SET dp.half_width = 3;
RESET ALL;
SHOW dp.epsilon;
 0.1
SHOW dp.half_width;
 ''

--- Wrong settings change nothing and say what to write.

SET dp.confidence = 1;
 ERROR 22023: invalid value for parameter "dp.confidence": "1"
 HINT: It must be between 0 and 1, more than 1e-9 from either, such as 0.95.
SET dp.confidence = 0;
 ERROR 22023: invalid value for parameter "dp.confidence": "0"
 HINT: It must be between 0 and 1, more than 1e-9 from either, such as 0.95.
SET dp.confidence = nan;
 ERROR 22023: invalid value for parameter "dp.confidence": "nan"
 HINT: Give a number, such as 0.1.
SHOW dp.confidence;
 0.95
SET dp.half_width = -3;
 ERROR 22023: invalid value for parameter "dp.half_width": "-3"
 HINT: It must be greater than 0 and less than 1e15.
SHOW dp.half_width;
 ''
SET dp.epsilon = 'x';
 ERROR 22023: invalid value for parameter "dp.epsilon": "x"
 HINT: Give a number, such as 0.1.
SET dp.epsilon = '1e-300';
 ERROR 22023: invalid value for parameter "dp.epsilon": "1e-300"
 HINT: Give a number with at most 20 digits on each side of the point, and an exponent of at most two digits.
SET dp.epsilon = '0.0000000000000000000000000000001';
 ERROR 22023: invalid value for parameter "dp.epsilon": "0.0000000000000000000000000000001"
 HINT: Give a number with at most 20 digits on each side of the point, and an exponent of at most two digits.
SET dp.epsilon = 0;
 ERROR 22023: invalid value for parameter "dp.epsilon": "0"
 HINT: It must be greater than 0 and less than 1e15.
SET dp.epsilon = '-1';
 ERROR 22023: invalid value for parameter "dp.epsilon": "-1"
 HINT: It must be greater than 0 and less than 1e15.
SET LOCAL dp.epsilon = -1;
 ERROR 22023: invalid value for parameter "dp.epsilon": "-1"
 HINT: It must be greater than 0 and less than 1e15.
SET dp.epsilon = '1/3';
 ERROR 22023: invalid value for parameter "dp.epsilon": "1/3"
 HINT: Give a number, such as 0.1.
SET dp.epsilon = '1_000';
 ERROR 22023: invalid value for parameter "dp.epsilon": "1_000"
 HINT: Give a number, such as 0.1.
SET dp.epsilon = '0x1';
 ERROR 22023: invalid value for parameter "dp.epsilon": "0x1"
 HINT: Give a number, such as 0.1.
SET dp.epsilon = '1e999999999';
 ERROR 22023: invalid value for parameter "dp.epsilon": "1e999999999"
 HINT: Give a number with at most 20 digits on each side of the point, and an exponent of at most two digits.
SET dp.epsilon = 1, 2;
 ERROR 22023: SET dp.epsilon takes only one argument
 HINT: Put a value with commas in '…'.
SET dp.epsilon;
              ^
 ERROR 42601: syntax error at end of input
 HINT: Write SET name = value.
SHOW dp.epsilon;
 0.1
SET dp.source = everywhere;
 ERROR 22023: invalid value for parameter "dp.source": "everywhere"
 HINT: Choose one of: auto, history, fresh.
SHOW dp.source;
 auto
SET dp.notices = perhaps;
 ERROR 22023: invalid value for parameter "dp.notices": "perhaps"
 HINT: Choose on or off.
SHOW dp.notices;
 on
SET dp.mechanism = none;
 ERROR 22023: there is no mechanism "none"
 HINT: Known: auto, projected, …
SET dp.mechanism = laplce;
 ERROR 22023: there is no mechanism "laplce"
 HINT: Known: auto, projected, extended, optimal, correlated, conditioned, knorm, imaged, laplace, gaussian, geometric, truncated_geometric, fair, weakly_honest, designed.
SHOW dp.mechanism;
 auto
SET dp.noise = off;
 ERROR 42704: unrecognized configuration parameter "dp.noise"
 HINT: Known: dp.epsilon, dp.rho, dp.half_width, dp.confidence, dp.coverage, dp.simultaneous, dp.mechanism, dp.delta, dp.calibration, dp.objective, dp.strategy, dp.as_of, dp.source, dp.nonnegative, dp.minimum_count, dp.extremes, dp.notices.
SET noise = off;
 ERROR 42704: unrecognized configuration parameter "noise"
SET client_encoding = 'LATIN1';
 ERROR 22023: invalid value for parameter "client_encoding": "LATIN1"
 HINT: Only UTF8 is offered.
SET standard_conforming_strings = off;
 ERROR 22023: invalid value for parameter "standard_conforming_strings": "off"
 HINT: Only on is offered.
SET server_version = '9';
 ERROR 22023: parameter "server_version" cannot be changed
SET search_path = '';
 ERROR 22023: invalid value for parameter "search_path": ""
 HINT: Names without a schema are always looked up in public: leave it in the path, and write dp. before the names of its relations.
SHOW nothing;
 ERROR 42704: unrecognized configuration parameter "nothing"
RESET nothing;
 ERROR 42704: unrecognized configuration parameter "nothing"

--- Clients set these on connecting.

SET application_name TO 'x';
SET SESSION extra_float_digits = 3;
SET TIME ZONE 'Europe/Paris';
SET NAMES 'UTF8';
SET search_path = public, x;
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;
SET client_encoding = UTF8;
SET dp.epsilon = DEFAULT;
SHOW timezone;
 Europe/Paris
SHOW search_path;
 public, x
DISCARD ALL;
SHOW timezone;
 UTC
RESET ALL;
UNLISTEN *;
CLOSE ALL;

--- Values are read as PostgreSQL reads them.

set dp.epsilon = +0.5;
show dp.epsilon;
 0.5
set dp.epsilon = .5;
show dp.epsilon;
 .5
set dp.epsilon = 5e-1;
show dp.epsilon;
 5e-1
set "dp"."EPSILON" to '0.5';
show dp.epsilon;
 0.5
set session dp.source to history;
show dp.source;
 history
set dp.notices = no;
show dp.notices;
 off
set dp.notices = TRUE;
show dp.notices;
 on
set application_name = $$a b$$;
show application_name;
 a b
set application_name = Hello;
show application_name;
 hello
set application_name = "Hello";
show application_name;
 Hello
set time zone default;
show timezone;
 UTC
set search_path = "public", 'a b';
show search_path;
 public, "a b"
set datestyle = iso, dmy;
show datestyle;
 ISO, DMY

--- A block may undo its settings.

BEGIN;
SET dp.epsilon = 0.25;
SET LOCAL dp.epsilon = 0.5;
SHOW dp.epsilon;
 0.5
COMMIT;
SHOW dp.epsilon;
 0.25
RESET ALL;
BEGIN;
SET dp.epsilon = 0.25;
SET LOCAL dp.epsilon = 0.5;
SHOW dp.epsilon;
 0.5
ROLLBACK;
SHOW dp.epsilon;
 0.1
SET LOCAL dp.epsilon = 0.5;
 WARNING: SET LOCAL can only be used in transaction blocks
SHOW dp.epsilon;
 0.1

--- A block has the modes it began with.

BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ WRITE;
SHOW transaction isolation level;
 repeatable read
SHOW transaction_read_only;
 off
SET TRANSACTION READ ONLY, DEFERRABLE;
SHOW transaction_read_only;
 on
COMMIT;
SHOW transaction_isolation;
 read committed
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
 WARNING: SET TRANSACTION can only be used in transaction blocks
SHOW transaction_isolation;
 read committed
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SHOW transaction_isolation;
 repeatable read

--- Cursors and prepared statements are for clients of the wire.
--@ only = "in process"

DECLARE c CURSOR FOR SELECT 1;
 ERROR 0A000: DECLARE CURSOR is answered only over the wire
 HINT: Send the query itself.
EXECUTE p;
 ERROR 0A000: EXECUTE is answered only over the wire
 HINT: Send the query itself.
FETCH c;
 ERROR 0A000: FETCH is answered only over the wire
 HINT: Send the query itself.
CLOSE c;
 ERROR 0A000: CLOSE CURSOR is answered only over the wire
 HINT: Send the query itself.
SELECT 1; SELECT 2;
 ERROR 42601: execute() takes one statement, not 2
 HINT: Send them one by one.

--- Messages below the client's level are not sent.

SELECT count(*) FROM person;
 NOTICE: cost …
SET client_min_messages = warning;
SELECT count(*) FROM person;
 NOTICE: none
SET TRANSACTION READ ONLY;
 WARNING: SET TRANSACTION can only be used in transaction blocks
SET client_min_messages = error;
SET TRANSACTION READ ONLY;
 NOTICE: none

--- Pools may set the user to who connected.

SELECT current_user;
 analyst
set session authorization default;
set local session authorization default;
set role none;
set session role none;
reset role;
SELECT current_user;
 analyst
set session authorization default bob;
                                  ^
 ERROR 42601: syntax error at or near "bob"
 HINT: Write SET name = value.
set role none bob;
              ^
 ERROR 42601: syntax error at or near "bob"
 HINT: Write SET name = value.
reset role bob;
           ^
 ERROR 42601: syntax error at or near "bob"
 HINT: Write RESET name or RESET ALL.

--- What has no meaning here is refused.

set default_transaction_isolation = 'banana';
 ERROR 22023: invalid value for parameter "default_transaction_isolation": "banana"
 HINT: Choose one of: serializable, repeatable read, read committed, read uncommitted.
set transaction snapshot '1';
 ERROR 0A000: snapshots of other transactions are not answered
commit and chain;
 ERROR 0A000: AND CHAIN is not answered
 HINT: Send BEGIN afterwards.
commit prepared 'a';
 ERROR 0A000: two-phase commit is not answered
set constraints one deferred;
 ERROR 42704: constraint "one" does not exist
set role bob;
 ERROR 42501: the user of a connection cannot be changed
 HINT: Connect as the other user.
set session authorization bob;
 ERROR 42501: the user of a connection cannot be changed
 HINT: Connect as the other user.
checkpoint;
 ERROR 42501: permission denied to execute CHECKPOINT command

--- An option of EXPLAIN is refused or taken.

explain (format nonsense) select 1;
 ERROR 22023: unrecognized value for EXPLAIN option "format": "nonsense"
explain (format xml) select 1;
 ERROR 0A000: EXPLAIN in the format xml is not answered
 HINT: Choose text or json.
explain (analyze) select 1;
 ERROR 0A000: EXPLAIN ANALYZE is not answered: it would run the query
 HINT: EXPLAIN alone shows the cost and the interval to expect, free of charge.
explain (analyze on, verbose) select 1;
 ERROR 0A000: EXPLAIN ANALYZE is not answered: it would run the query
 HINT: EXPLAIN alone shows the cost and the interval to expect, free of charge.
explain analyze select 1;
 ERROR 0A000: EXPLAIN ANALYZE is not answered: it would run the query
 HINT: EXPLAIN alone shows the cost and the interval to expect, free of charge.
explain (costs off) select 1;
 ERROR 0A000: EXPLAIN with costs off is not answered
 HINT: Leave COSTS out.
explain (buffers) select 1;
 ERROR 0A000: EXPLAIN with buffers on is not answered
 HINT: Leave BUFFERS out.
explain (timing on) select 1;
 ERROR 22023: EXPLAIN option TIMING requires ANALYZE
explain select count(*) from person where age < 9;
 …
 Cost: epsilon 0.1 …
explain verbose select count(*) from person where age < 9;
 …
 Cost: epsilon 0.1 …
explain (analyze off, format text) select count(*) from person where age < 9;
 …
 Cost: epsilon 0.1 …
explain (verbose 0, costs 1) select count(*) from person where age < 9;
 …
 Cost: epsilon 0.1 …
explain ((select count(*) from person where age < 9));
 …
 Cost: epsilon 0.1 …

--- Small counts are NULL where that is asked, with what stands beside them.
--@ budget.epsilon = 10
--@ noise = [3, -3]

SET dp.minimum_count = 10;
SELECT state, count(*) AS n, sum(age), avg(age), dp_interval_low(n) FROM person GROUP BY state ORDER BY n NULLS LAST LIMIT 4;
 …
 NOTICE: cost …
 NOTICE: 4 of 10 counts are below dp.minimum_count = 10, and are NULL
 HINT: SET dp.minimum_count TO DEFAULT shows them.
SELECT state, n, a, low FROM (SELECT state, count(*) AS n, avg(age) AS a, dp_interval_low(count(*)) AS low FROM person GROUP BY state) AS t WHERE n IS NULL;
 other | NULL | NULL | NULL
 NULL | NULL | NULL | NULL
SELECT state, count(*) FILTER (WHERE age < 40), count(*) FILTER (WHERE age >= 79) FROM person GROUP BY state HAVING count(*) IS NOT NULL AND state = 'AL';
 AL | 504 | 15
SELECT count(*) FROM person WHERE state = 'other';
 NULL
SET dp.minimum_count TO DEFAULT;
SELECT count(*) FROM person WHERE state = 'other';
 -3
 NOTICE: answered from history, free; …
SET dp.minimum_count = -1;
 ERROR 22023: …
