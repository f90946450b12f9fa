"""What reads a query into a data frame: pandas, polars, connectorx, ADBC, ibis."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from tests.clients.conftest import BY_CITY, Served

pytestmark = pytest.mark.usefixtures("free")


def pairs(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.to_numpy().tolist()]


def test_pandas(served: Served, by_city: list[Any]) -> None:
    """With the engine that its guide creates, which asks first whether the text is a table."""
    engine = sa.create_engine(served.dsn.replace("postgresql:", "postgresql+psycopg:"))
    assert pairs(pd.read_sql(BY_CITY, engine)) == by_city
    parts = pd.read_sql_query(BY_CITY, engine, chunksize=3)
    assert [len(part) for part in parts] == [3, 1]
    assert pairs(pd.read_sql("SELECT city FROM towns ORDER BY 1", engine)) == [
        ("Berlin",), ("Paris",),
    ]  # fmt: skip
    engine.dispose()


@pytest.mark.parametrize("protocol", ["binary", "csv", "cursor", "simple"])
def test_connectorx(served: Served, by_city: list[Any], protocol: str) -> None:
    """It knows no sslmode=verify-full; with a root certificate, require verifies it."""
    connectorx = pytest.importorskip("connectorx")
    address = served.url(sslmode="require", sslrootcert=served.certificate)
    # For pandas it keeps the interpreter's lock, which the server in this process needs.
    table = connectorx.read_sql(address, BY_CITY, protocol=protocol, return_type="arrow")
    assert [tuple(row.values()) for row in table.to_pylist()] == by_city


def test_polars(served: Served, by_city: list[Any]) -> None:
    polars = pytest.importorskip("polars")
    address = served.url(sslmode="require", sslrootcert=served.certificate)
    engine = sa.create_engine(served.dsn.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        assert polars.read_database(BY_CITY, connection).rows() == by_city
    engine.dispose()
    for reader, where in (("connectorx", address), ("adbc", served.dsn)):
        pytest.importorskip({"adbc": "adbc_driver_postgresql"}.get(reader, reader))
        assert polars.read_database_uri(BY_CITY, where, engine=reader).rows() == by_city


def test_adbc(served: Served, by_city: list[Any]) -> None:
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with adbc.connect(served.dsn) as connection, connection.cursor() as cursor:
        cursor.execute(BY_CITY)
        assert [tuple(row.values()) for row in cursor.fetch_arrow_table().to_pylist()] == by_city
        cursor.execute("SELECT $1 + 1 AS n", (41,))
        assert cursor.fetchone() == (42,)
        assert cursor.adbc_prepare("SELECT count(*) FROM patients WHERE city = $1").names == ["$1"]
        described = cursor.adbc_execute_schema(BY_CITY)
        assert [str(kind) for kind in described.types] == ["string", "int64"]
        schema = connection.adbc_get_table_schema("patients", db_schema_filter="public")
        assert schema.names[:3] == ["city", "age", "sex"]
        with pytest.raises(adbc.Error, match="CREATE is not answered"):
            cursor.adbc_ingest("mine", schema.empty_table())
        connection.rollback()
    with adbc.connect(served.dsn.replace("/tallyveil?", "/clinic?")) as connection:
        objects = connection.adbc_get_objects(depth="columns", db_schema_filter="public")
        found = {each["catalog_name"]: each for each in objects.read_all().to_pylist()}
        [schema] = found["clinic"]["catalog_db_schemas"]
        tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
        assert set(tables) == {"adults", "by_city", "patients", "towns"}
        columns = tables["patients"]["table_columns"]
        assert [column["column_name"] for column in columns][:3] == ["city", "age", "sex"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ibis(served: Served, by_city: list[Any]) -> None:
    """Expressions over tables. What it does with SQL of one's own creates a view: refused."""
    ibis = pytest.importorskip("ibis")
    connection = ibis.connect(served.dsn.replace("postgresql:", "postgres:"))
    patients = connection.table("patients")
    counted = patients.group_by("city").agg(n=patients.count()).order_by("city")
    assert pairs(counted.execute()) == by_city
    assert set(connection.list_tables()) >= {"patients", "towns"}
    with pytest.raises(Exception, match="CREATE is not answered"):
        connection.sql(BY_CITY).execute()
    connection.disconnect()
