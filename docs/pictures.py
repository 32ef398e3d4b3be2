"""Takes the README's pictures of the web page: `python docs/pictures.py MODEL` (make pictures).

Needs Chromium and Playwright's Python package, as the browser tests do.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

OUT = Path(__file__).parent / "pictures"
TEXT = "the animal didn't cross the street because it was too tired"
# Name, view, colours, width and height.
SHOTS = (
    ("page", "heads", "light", 1240, 1080),
    ("page-dark", "next", "dark", 1240, 1200),
    ("page-why", "why", "light", 1240, 1000),
    ("page-phone", "alignment", "light", 390, 844),
)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("say which model: python docs/pictures.py runs/demo/model")
    command = [sys.executable, "-m", "regard", "serve", sys.argv[1], "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r"http://\S+", server.stdout.readline())
            if ready is None:
                sys.exit("the server did not start")
            with sync_playwright() as playwright:
                found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
                browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
                for shot in SHOTS:
                    _take(browser, ready[0], *shot)
                browser.close()
        finally:
            server.terminate()


def _take(browser: Browser, address: str, name: str, view: str, colours: str, width: int, height: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{address}/#{urlencode({'text': TEXT, 'source': 'en', 'target': 'es', 'view': view})}")
    page.wait_for_selector(".panel .r-view .r-lead")
    if view == "why":
        page.locator(".panel button", has_text="cansado").click()
        page.wait_for_selector("text=1,000 masks;")
    page.wait_for_timeout(600)
    page.screenshot(path=OUT / f"{name}.png")
    context.close()
    print(f"wrote {OUT / name}.png")


if __name__ == "__main__":
    main()
