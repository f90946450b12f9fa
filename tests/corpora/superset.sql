-- What Apache Superset 6.1 sends for charts, filter boxes and its SQL editor, about a table of
-- people: a statement, then its verdict.

SELECT
  COUNT(*) AS count
FROM public.people
LIMIT 100;
-- answered

SELECT
  state AS state,
  COUNT(*) AS count
FROM public.people
GROUP BY
  state
ORDER BY
  count DESC
LIMIT 100;
-- answered

SELECT
  state AS state,
  COUNT(*) AS count
FROM public.people
WHERE
  age >= 30 AND sex IN ('F')
GROUP BY
  state
LIMIT 100;
-- answered

SELECT
  state AS state,
  education AS education,
  COUNT(*) AS count
FROM public.people
GROUP BY
  state,
  education
LIMIT 100;
-- answered

SELECT
  DATE_TRUNC('DAY', moved) AS moved,
  COUNT(*) AS count
FROM public.people
GROUP BY
  DATE_TRUNC('DAY', moved)
LIMIT 100;
-- answered

SELECT
  DATE_TRUNC('MONTH', moved) AS moved,
  AVG(age) AS "AVG(age)",
  SUM(age) AS "SUM(age)"
FROM public.people
WHERE
  moved >= TO_DATE('2020-02-01', 'YYYY-MM-DD') AND moved < TO_DATE('2020-04-01', 'YYYY-MM-DD')
GROUP BY
  DATE_TRUNC('MONTH', moved)
LIMIT 1000;
-- answered

SELECT
  DATE_TRUNC('MONTH', moved) AS moved,
  AVG(age) AS "AVG(age)",
  SUM(age) AS "SUM(age)"
FROM public.people
WHERE
  moved >= '2020-02-01' AND moved < '2020-04-01'
GROUP BY
  DATE_TRUNC('MONTH', moved)
LIMIT 1000;
-- answered

SELECT
  COUNT(DISTINCT state) AS u
FROM public.people
LIMIT 100;
-- answered

SELECT DISTINCT state AS column_values 
FROM public.people 
 LIMIT 10000;
-- answered

SELECT
  state AS state,
  age AS age,
  sex AS sex,
  education AS education,
  moved AS moved
FROM public.people
LIMIT 10;
-- refused 0A000 rows of a protected table are not answered

SELECT
  state,
  COUNT(*) AS n
FROM people
GROUP BY
  state
LIMIT 101;
-- answered

SELECT pg_backend_pid();
-- answered

set search_path = "public";
-- answered
