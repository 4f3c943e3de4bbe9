"""The page in a real Chromium. `make browser` runs these."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nanoclaw.plugins.browse.chromium import executable, lack
from nanoclaw.providers.scripted import call
from tests.plugins.page.served import serving

NONE = lack("", os.environ["PATH"])
pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(NONE), reason=NONE)]

HOSTILE = (
    "<script>document.title = 'run'</script> ![x](https://example.org/x.png)\n\n|a|b|\n|-|-|\n|1|2|\n\nThat is all."
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_a_person_talks_in_two_tabs_and_reloads(tmp_path: Path, width: int, scheme: str) -> None:
    playwright = pytest.importorskip("playwright.async_api")
    writes = call("write_file", {"path": "bird.txt", "content": "pelican"})
    async with serving(tmp_path, writes, HOSTILE, HOSTILE) as served, playwright.async_playwright() as driver:
        chromium = await driver.chromium.launch(
            executable_path=executable("", os.environ["PATH"]), chromium_sandbox=os.geteuid() != 0
        )
        context = await chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page, faults, asked = await context.new_page(), list[str](), list[str]()
        page.on("pageerror", lambda error: faults.append(str(error)))
        context.on("request", lambda request: asked.append(request.url))
        await page.goto(served.page.link())
        await page.locator("#side a, textarea").first.wait_for(state="attached")
        await page.goto(f"{served.url}/#/talk/page:abc12345")
        other = await context.new_page()
        await other.goto(f"{served.url}/#/talk/page:abc12345")
        await other.locator("textarea").wait_for()
        await page.locator("textarea").fill("Write bird.txt")
        await page.keyboard.press("Enter")
        for one in (page, other):
            await one.locator(".text").first.wait_for()
            await one.locator('.log[aria-busy="false"]').wait_for()
            await playwright.expect(one.get_by_text("That is all.")).to_have_count(1)
            assert await one.locator(".said").count() == 1
            assert await one.locator(".text").count() == 1
        await page.locator(".tool summary").click()
        await page.locator(".diff .added").wait_for()
        await page.reload()
        await page.get_by_text("That is all.").last.wait_for()
        assert await page.locator(".said").count() == 1 and await page.locator(".words img").count() == 0
        assert await page.title() != "run" and faults == []
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        assert all(url.startswith(served.url) for url in asked)
        await chromium.close()
