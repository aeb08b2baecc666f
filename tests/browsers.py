"""A real browser for pages; without Chromium and its driver, tests that ask for one are skipped."""

import shutil

import pytest

SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """Headless Chromium with a few words for what the tests do."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, report, change=lambda page: page, address="", width=1200, scheme="light"):
        """A new page; what the browser complained about is asked for by `complaints`."""
        from maxplus.report import render_page

        self.show(change(render_page(report)), address, width, scheme)

    def show(self, page, address="", width=1200, scheme="light"):
        """A page of any kind."""
        path = self.folder / "page.html"
        path.write_text(page, encoding="utf-8")
        self.driver.get("about:blank")  # else an address that differs in its # only is no new page
        self.complaints()
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get(path.as_uri() + address)
        # On a busy machine the driver may come back while the blank page is still there.
        self._wait("return location.protocol === 'file:' && document.readyState === 'complete'")

    def _wait(self, condition):
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, 30).until(lambda driver: driver.execute_script(condition))

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def column(self, table, number):
        """Texts of a column, from top to bottom."""
        return self.run(
            "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
            ".map(row => row.cells[arguments[1]].textContent)",
            table,
            number,
        )

    def style(self, selector, name):
        return self.find(selector).value_of_css_property(name)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def complaints(self):
        return self.driver.get_log("browser")

    @property
    def verdict(self):
        return self.run("return document.getElementById('verdict').textContent")

    @property
    def focus(self):
        return self.run("return document.activeElement.id")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """One browser for all tests of a module; each opens a page of its own."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    yield Browser(driver, tmp_path_factory.mktemp("pages"))
    driver.quit()


@pytest.fixture
def browser(session):
    """The session, which must have nothing to complain about after a test."""
    yield session
    assert session.complaints() == []


@pytest.fixture
def keys(session):
    from selenium.webdriver.common.keys import Keys

    return Keys
