-- PIVOT, in DuckDB's SQL: its columns are those declared, whatever the records hold.

--- A column for each declared value, and each record in one of them is charged once.
--@ only = "in process"

PIVOT person ON sex USING count(*) GROUP BY state;
 AL | 500 | 500 | 0
 AK | 500 | 500 | 0
 WY | 500 | 500 | 0
 other | 0 | 0 | 0
 NULL | 0 | 0 | 0
 SPENT 0.1
PIVOT person ON sex GROUP BY state ORDER BY state LIMIT 1;
 AK | 500 | 500 | 0
 FREE
SELECT state, "F", "M", other FROM (SELECT state, count(*) FILTER (WHERE sex = 'F') AS "F", count(*) FILTER (WHERE sex = 'M') AS "M", count(*) FILTER (WHERE sex = 'other') AS other FROM person GROUP BY state) AS t ORDER BY state LIMIT 1;
 AK | 500 | 500 | 0
 FREE
EXPLAIN PIVOT person ON sex GROUP BY state;
 …
 FREE

--- Keys, aggregates and groups as DuckDB has them.
--@ only = "in process"
--@ budget.epsilon = 100

PIVOT person ON sex IN ('F', 'X', NULL), (age < 40) IN (true) USING count(*) AS n, avg(age) GROUP BY state ORDER BY state LIMIT 2;
 AK | 253 | 19.027667984189723 | 0 | NULL | 0 | NULL
 AL | 253 | 18.972332015810277 | 0 | NULL | 0 | NULL
 WARNING: 'X' is not a declared value of sex: no record is counted by it
 WARNING: 'X' is not a declared value of sex: no record is counted by it
 NOTICE: cost epsilon 0.1 for 10 of the 11 different numbers in the result, …
 NOTICE: a ratio or an average may be far off: …
PIVOT (SELECT sex, age // 40 AS half FROM person) ON half USING count(*);
 F | 760 | 740 | 0
 M | 760 | 740 | 0
 other | 0 | 0 | 0
WITH t AS (SELECT state, sex, count(*) AS n FROM person GROUP BY ALL) PIVOT t ON sex USING sum(n) GROUP BY state ORDER BY state LIMIT 1;
 AK | 500 | 500 | 0
\bind [40, "F"]
PIVOT (SELECT * FROM person WHERE age < ?) ON sex IN (?) USING count(*) GROUP BY state LIMIT 1;
 AL | 253
PIVOT (SELECT sex, count(*) AS n FROM person GROUP BY sex) ON sex IN ('F', 'M') USING sum(n);
 1500 | 1500

--- What would depend on noise, or is no PIVOT, is refused.
--@ only = "in process"

PIVOT (SELECT state, sex, count(*) AS n FROM person GROUP BY ALL HAVING n > 100) ON sex USING sum(n);
 ERROR 0A000: the columns of this PIVOT would depend on noise
 HINT: List them: ON sex IN ('F', 'M').
PIVOT (SELECT * FROM (SELECT state, sex, count(*) AS n FROM person GROUP BY ALL) WHERE n > 100) ON sex USING sum(n);
 ERROR 0A000: the columns of this PIVOT would depend on noise
SELECT * FROM person PIVOT (count(*) FOR sex IN ('F', 'M') GROUP BY state);
 ERROR 0A000: PIVOT is not answered in this place
 HINT: Write it as a statement: PIVOT person ON sex USING count(*) GROUP BY state.
PIVOT person USING count(*);
 ERROR 42601: …
PIVOT person ON sex USING count(DISTINCT age) GROUP BY state;
 …
PIVOT person ON sex USING first(age) GROUP BY state;
 ERROR 0A000: …
PIVOT person ON age < 40 IN (true) GROUP BY state;
                ^
 ERROR 0A000: an expression before IN is not answered without brackets
 HINT: Write ON (age < 40) IN (true, false).
PIVOT person ON ages GROUP BY state;
 ERROR 42703: column "ages" does not exist
PIVOT person ON sex GROUP BY state LIMIT 1 USING count(*);
 ERROR 0A000: clauses of PIVOT in this order are not answered

--- Over the wire it is a syntax error, as in PostgreSQL.
--@ only = "over the wire"

PIVOT person ON sex USING count(*) GROUP BY state;
 ERROR 42601: syntax error at or near "PIVOT"
SELECT state FROM person GROUP BY state QUALIFY count(*) OVER () > 1;
 ERROR 42601: syntax error at or near "QUALIFY"
