"""What an analyst does in Superset, in a browser without a window: `python browser.py SUPERSET URI
PICTURES`, with Superset's address, the server's as SQLAlchemy has it, and a folder.

Runs in Superset's environment. Each step prints what it saw and what it cost, as JSON, and leaves a
picture.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg2
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 90.0
OPTIONS = ("--headless=new", "--no-sandbox", "--window-size=1400,1000", "--disable-dev-shm-usage")
FETCH = """
const [path, body, done] = arguments;
const json = {'Content-Type': 'application/json'};
fetch('/api/v1/' + path, {method: 'POST', headers: json, body: JSON.stringify(body)})
  .then(answer => answer.json()).then(done, error => done({error: String(error)}));
"""
# Charts draw their lines little by little: a picture before the end looks like missing months.
DRAWN = """
const done = arguments[0];
let before = null, same = 0;
const look = () => {
  const now = [...document.querySelectorAll('canvas')].map(each => each.toDataURL()).join();
  same = now === before ? same + 1 : 0;
  before = now;
  if (same < 30) requestAnimationFrame(look); else done(true);
};
look();
"""
COUNT = {"metrics": ["count"], "row_limit": 100}


class Page:
    """A browser, and where Superset is."""

    def __init__(self, address: str) -> None:
        self.address = address
        options = webdriver.ChromeOptions()
        for option in OPTIONS:
            options.add_argument(option)
        options.binary_location = str(shutil.which("chromium"))
        service = webdriver.ChromeService(str(shutil.which("chromedriver")))
        self.driver = webdriver.Chrome(options, service)
        self.driver.set_script_timeout(SECONDS)
        self._wait = WebDriverWait(
            self.driver, SECONDS, ignored_exceptions=(StaleElementReferenceException,)
        )

    def open(self, path: str) -> None:
        self.driver.get(self.address + path)

    def all(self, selector: str) -> list[WebElement]:
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [element for element in found if element.is_displayed()]

    def until(self, seen: Callable[[], Any]) -> Any:
        """What is seen, as soon as it is something."""
        return self._wait.until(lambda _: seen())

    def first(self, selector: str) -> WebElement:
        return self.until(lambda: self.all(selector))[0]

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def text(self, words: str) -> WebElement:
        """What shows these words and nothing else."""
        path = f"//*[normalize-space(text())={words!r}]"
        return self.until(
            lambda: [e for e in self.driver.find_elements(By.XPATH, path) if e.is_displayed()]
        )[-1]

    def click(self, selector: str) -> None:
        self.first(selector).click()

    def fill(self, selector: str, words: str) -> None:
        field = self.first(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(words)

    def choose(self, selector: str, words: str) -> list[str]:
        """Of a list that opens below a field; what it offered."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(" ", Keys.BACKSPACE)
        options = ".ant-select-item-option"
        self.until(lambda: any(words in option for option in self.texts(options)))
        offered = self.texts(options)
        next(option for option in self.all(options) if words in option.text).click()
        return offered

    def post(self, path: str, **body: Any) -> Any:
        """To Superset itself: what it keeps of charts and dashboards, no query."""
        answer = self.driver.execute_async_script(FETCH, path, body)
        return answer.get("id") or answer["key"]

    def rows(self, within: str) -> list[list[str]]:
        """Of a table that has some."""
        path = f"{within} tbody tr"
        return self.until(
            lambda: [
                [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
                for row in self.all(path)
            ]
        )

    def close_window(self) -> None:
        self.all(".ant-modal-close")[-1].click()
        self.until(lambda: not self.all(".ant-modal-close"))


def sign_in(page: Page) -> None:
    page.open("/login/")
    page.fill("[data-test=username-input]", "admin")
    page.fill("[data-test=password-input]", "admin")
    page.click("[data-test=login-button]")
    page.until(lambda: "/login" not in page.driver.current_url)


def database(page: Page, uri: str) -> list[str]:
    """Add the server by its address, tested first."""
    page.open("/databaseview/list/")
    page.click("[data-test=btn-create-database]")
    page.text("PostgreSQL").click()
    page.click("[data-test=sqla-connect-btn]")
    page.fill("[data-test=database-name-input]", "clinic")
    page.fill("[data-test=sqlalchemy-uri-input]", uri)
    page.text("Test connection").click()
    seen = page.until(lambda: page.texts("[data-test=toast-container]"))
    page.click("[data-test=btn-submit-connection]")
    page.until(lambda: not page.all("[data-test=btn-submit-connection]"))
    return list(seen)


def dataset(page: Page) -> list[list[str]]:
    """Choose a table out of what the catalog lists; its columns and their types."""
    page.open("/dataset/add/")
    page.first("input[aria-label^='Select database']")
    page.choose("input[aria-label^='Select database']", "clinic")
    page.choose("#select-schema", "public")
    page.choose("#select-table", "patients")
    columns = page.rows("table")
    page.text("Create and explore dataset").click()
    page.until(lambda: "/chart/add" in page.driver.current_url)
    return columns


def chart(page: Page) -> list[str]:
    """A bar for each city and sex, drawn, and drawn anew; how many rows it has."""
    form = {"viz_type": "echarts_timeseries_bar", "x_axis": "city", "groupby": ["sex"], **COUNT}
    key = page.post(
        "explore/form_data",
        datasource_id=1,
        datasource_type="table",
        form_data=json.dumps({"datasource": "1__table", **form}),
    )
    page.open(f"/explore/?form_data_key={key}&datasource_id=1&datasource_type=table")
    page.first("canvas")
    page.click("[data-test=run-query-button]")
    page.first("canvas")
    return page.texts("[data-test=row-count-label], [data-test=alert-error]")


def dashboard(page: Page) -> Any:
    """A number, a table and a line with dates, under filters."""
    charts = {
        "How many": ("big_number_total", {"metric": "count", "y_axis_format": ",d"}),
        "By city": ("table", {"groupby": ["city"], **COUNT, "column_config": DIGITS}),
        "By month": (
            "echarts_timeseries_line",
            {"x_axis": "admitted", "time_grain_sqla": "P1M", "groupby": ["sex"], **COUNT},
        ),
    }
    numbers = [
        page.post(
            "chart/",
            slice_name=name,
            viz_type=kind,
            datasource_id=1,
            datasource_type="table",
            params=json.dumps({"datasource": "1__table", "viz_type": kind, **form}),
        )
        for name, (kind, form) in charts.items()
    ]
    metadata = {"native_filter_configuration": FILTERS, "cross_filters_enabled": True}
    number = page.post(
        "dashboard/",
        dashboard_title="Clinic",
        position_json=json.dumps(layout(numbers)),
        json_metadata=json.dumps(metadata),
    )
    for each in numbers:
        page.driver.execute_async_script(
            FETCH.replace("POST", "PUT"), f"chart/{each}", {"dashboards": [number]}
        )
    page.open(f"/superset/dashboard/{number}/")
    return shown(page)


DIGITS = {"count": {"d3NumberFormat": ",d"}}

FILTERS = [
    {
        "id": "NATIVE_FILTER-city",
        "name": "City",
        "filterType": "filter_select",
        "type": "NATIVE_FILTER",
        "targets": [{"datasetId": 1, "column": {"name": "city"}}],
        "controlValues": {"multiSelect": True},
        "defaultDataMask": {"extraFormData": {}, "filterState": {}},
        "cascadeParentIds": [],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
    }
]


def layout(charts: list[int]) -> dict[str, Any]:
    """One row of charts."""
    above = ["ROOT_ID", "GRID_ID"]
    names = [f"CHART-{number}" for number in charts]
    return {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": ["ROW"], "parents": above[:1]},
        "ROW": {
            "type": "ROW",
            "id": "ROW",
            "children": names,
            "parents": above,
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        },
    } | {
        name: {
            "type": "CHART",
            "id": name,
            "children": [],
            "parents": [*above, "ROW"],
            "meta": {"chartId": number, "width": 4, "height": 50},
        }
        for name, number in zip(names, charts, strict=True)
    }


def shown(page: Page) -> dict[str, Any]:
    """What the charts of the dashboard show, once they all do."""
    page.until(lambda: not page.all("[data-test=loading-indicator]"))
    page.until(lambda: len(page.all("canvas")) == 1)
    return {
        "number": page.first(".header-line").text,
        "rows": sorted(page.rows("[data-test=chart-container] table")),
        "errors": page.texts("[data-test=alert-error], .ant-alert-error"),
    }


def filter_box(page: Page) -> dict[str, Any]:
    """The cities are listed, and one of them chosen."""
    offered = page.choose("#NATIVE_FILTER-city", "Paris")
    page.driver.find_element(By.CSS_SELECTOR, "#NATIVE_FILTER-city").send_keys(Keys.ESCAPE)
    page.click("[data-test=filter-bar__apply-button]")
    page.until(lambda: len(page.rows("[data-test=chart-container] table")) == 1)
    return {"offered": offered, **shown(page)}


def context_menu(page: Page) -> None:
    cell = page.first("[data-test=chart-container] table tbody td")
    ActionChains(page.driver).context_click(cell).perform()


def in_window(page: Page, name: str, seen: Callable[[], Any]) -> Any:
    """What a window over the dashboard shows; it is closed then."""
    try:
        return page.until(seen)
    finally:
        picture(page, name)
        page.close_window()


def drill_by(page: Page) -> list[list[str]]:
    """Those of Paris, by another attribute."""
    context_menu(page)
    ActionChains(page.driver).move_to_element(page.text("Drill by")).perform()
    page.text("diagnosis").click()
    return in_window(page, "drill_by", lambda: page.rows(".ant-modal-body table"))


def drill_to_detail(page: Page) -> str:
    """The records themselves, which nobody gets."""
    context_menu(page)
    page.text("Drill to detail").click()
    return in_window(
        page,
        "drill_to_detail",
        lambda: next((text for text in page.texts(".ant-modal-body pre") if "Error" in text), ""),
    )


def refresh(page: Page) -> dict[str, Any]:
    page.click("[data-test=refresh-button]")
    return shown(page)


def sql_lab(page: Page) -> list[str]:
    """A statement of one's own: the numbers of the rows, and then their cells."""
    sql = "SELECT sex, count(*) FROM patients WHERE age >= 18 GROUP BY sex ORDER BY sex"
    page.open(f"/sqllab/?dbid=1&title=people&sql={quote(sql)}")
    page.first(".ace_content")
    page.text("Run").click()
    page.until(lambda: page.texts("[role=gridcell]"))
    return page.texts("[role=gridcell]")


def picture(page: Page, name: str) -> None:
    """Of what is seen once 30 frames in a row drew nothing."""
    page.driver.execute_async_script(DRAWN)
    page.driver.save_screenshot(str(PICTURES / f"{name}.png"))


STEPS = (
    database, dataset, chart, dashboard, filter_box, drill_by, drill_to_detail, refresh, sql_lab,
)  # fmt: skip


def spent(uri: str) -> float:
    with closing(psycopg2.connect(uri.replace("+psycopg2", ""))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT sum(spent) FROM dp.budget")
        return float(cursor.fetchone()[0])


def main(superset: str, uri: str) -> None:
    page = Page(superset)
    try:
        sign_in(page)
        for step in STEPS:
            try:
                before = spent(uri)
                seen = step(page, uri) if step is database else step(page)
                told = {"seen": seen, "cost": spent(uri) - before}
                print(json.dumps({step.__name__: told}), flush=True)
            finally:
                if step not in (drill_by, drill_to_detail):
                    picture(page, step.__name__)
    finally:
        page.driver.quit()


if __name__ == "__main__":
    PICTURES = Path(sys.argv[3])
    PICTURES.mkdir(parents=True, exist_ok=True)
    main(*sys.argv[1:3])
