"""One open page: where it is, what is on it, and how it is clicked and typed into.

Scripts run in a world of their own (`_WORLD`), so a page cannot change what they see. Input goes through the browser's own input
events, as from a mouse and a keyboard. After each action `settle` waits until the page has loaded what the action started.
"""

import base64
import re
from collections.abc import Sequence
from typing import Any

import anyio

from sandlot.apps.browser.devtools import DevTools, Fields, NoAnswerError
from sandlot.apps.browser.keyboard import key_events, modifier_bits
from sandlot.apps.browser.snapshot import Element, References, snapshot_text
from sandlot.core.errors import ToolError

_WORLD = "sandlot"
_REF = re.compile(r"e\d+\Z")
_MAX_SETTLE_S = 10.0
_ASK_AGAIN_S = 0.2
_ANSWER_S = 10.0
"""How long the page is waited for when it is asked only whether it answers."""
_NUM_TRIES = 3
_MAX_ELEMENTS = 8_000
"""Elements of a page that is shown as a tree; a larger one would cost seconds and no agent could read it."""

_SELECT_ALL = """function() {
  if (typeof this.select === 'function') this.select();
  else { const s = getSelection(); s.removeAllRanges(); s.selectAllChildren(this); }
}"""
_EDITABLE = """function() {
  if (this.disabled) return 'disabled';
  if (this.readOnly) return 'read-only';
  if (this.isContentEditable || this.localName === 'textarea') return 'text';
  if (this.localName !== 'input') return 'none';
  const set = ['color', 'date', 'datetime-local', 'month', 'range', 'time', 'week'];
  const none = ['button', 'checkbox', 'file', 'hidden', 'image', 'radio', 'reset', 'submit'];
  return set.includes(this.type) ? 'set' : none.includes(this.type) ? 'none' : 'text';
}"""
_SET_VALUE = """function(value) {
  this.value = value;
  this.dispatchEvent(new Event('input', {bubbles: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return this.value === value;
}"""
_CHOOSE = """function(values) {
  if (this.localName !== 'select') return {problem: 'kind'};
  if (this.disabled) return {problem: 'disabled'};
  const options = [...this.options], text = o => o.label.trim().replace(/\\s+/g, ' ');
  const found = values.map(v => options.find(o => !o.disabled && (text(o) === v || o.value === v)));
  if (found.includes(undefined)) return {problem: 'option', options: options.filter(o => !o.disabled).map(text)};
  if (!this.multiple && values.length !== 1) return {problem: 'many'};
  for (const o of options) o.selected = found.includes(o);
  this.dispatchEvent(new Event('input', {bubbles: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return {};
}"""
_HIT = """function(x, y) {
  let hit = this.ownerDocument.elementFromPoint(x, y);
  for (let each = hit; each; each = each.parentElement) {
    if (each === this) return '';
    if (each.localName === 'label' && each.control === this) return '';
  }
  if (!hit) return 'nothing';
  const name = (hit.getAttribute('aria-label') || hit.innerText || '').trim().slice(0, 60);
  return '<' + hit.localName + '>' + (name ? ' ' + JSON.stringify(name) : '');
}"""


def _gone(ref: str) -> str:
    return f"Ref {ref} not found in the current page snapshot. Try capturing new snapshot."


class Tab:
    """An open page of the browser."""

    def __init__(self, devtools: DevTools, session: str, target: str) -> None:
        self._devtools = devtools
        self.session = session
        self.target = target
        self.dialog: Fields | None = None
        """What a JavaScript dialog shows, while one is open."""
        self.references = References()
        self.crashed = False
        self._frame = ""
        self._loading: set[str] = set()
        self._is_navigating = False
        self._changed = anyio.Event()

    async def prepare(self) -> None:
        """Turn on what is needed."""
        for domain in ("Page", "Network", "Runtime", "DOM"):
            await self.call(f"{domain}.enable")
        self._frame = (await self.call("Page.getFrameTree"))["frameTree"]["frame"]["id"]

    async def call(self, method: str, **parameters: Any) -> Fields:
        """A DevTools request to this page; empty if a dialog opens before the answer."""
        return await self._devtools.call(method, self.session, **parameters)

    def take_event(self, method: str, parameters: Fields) -> None:
        """Keep track of loading, navigation and dialogs."""
        match method:
            case "Network.requestWillBeSent":
                self._loading.add(parameters["requestId"])
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._loading.discard(parameters["requestId"])
            case "Page.frameNavigated" if not parameters["frame"].get("parentId"):
                self.references.forget()
                self._loading.clear()
            case "Page.frameRequestedNavigation" | "Page.frameStartedNavigating" | "Page.frameStartedLoading" if (
                parameters["frameId"] == self._frame
            ):
                self._is_navigating = True
            case "Page.frameStoppedLoading" if parameters["frameId"] == self._frame:
                self._is_navigating = False
            case "Page.javascriptDialogOpening":
                self.dialog = parameters
                self._devtools.release(self.session)
            case "Page.javascriptDialogClosed":
                self.dialog = None
            case "Inspector.targetCrashed":
                self.crashed = True
                self._devtools.release(self.session)
            case _:
                return
        self._changed.set()

    async def settle(self) -> None:
        """Wait until the page has loaded, or shows a dialog; at most some seconds.

        The page itself is asked twice, each time after it has done what was due: what an action started is then known here.
        """
        num_quiet = 0
        with anyio.move_on_after(_MAX_SETTLE_S):
            while num_quiet < 2 and self.dialog is None and not self.crashed:
                self._changed = anyio.Event()
                state = await self._state()
                is_busy = bool(self._loading) or self._is_navigating or state != "complete"
                num_quiet = 0 if is_busy else num_quiet + 1
                if is_busy:
                    with anyio.move_on_after(_ASK_AGAIN_S):
                        await self._changed.wait()

    async def _answers(self) -> bool:
        """False if the page does not answer for some seconds."""
        for _ in range(_NUM_TRIES):
            if self.dialog is not None or self.crashed or await self._state():
                return True
        return False

    async def _state(self) -> str:
        """The state of the document, after the page has done what was due; empty if it is just being replaced."""
        waited = "async function() { await new Promise(r => setTimeout(r, 20)); return document.readyState }"
        try:
            with anyio.move_on_after(_ANSWER_S):
                return str(await self._run(waited))
        except ToolError:
            self._devtools.require_open()
        return ""

    # -- where it is ---------------------------------------------------------------------------------------------------

    async def navigate(self, url: str) -> None:
        """Open an address; `ToolError` if it cannot be reached."""
        self.crashed = False
        if not await self._answers():  # a script that does not end must not keep the agent on its page
            await self.call("Runtime.terminateExecution")
        result = await self.call("Page.navigate", url=url)
        await self.settle()
        if result.get("errorText") not in {None, "net::ERR_ABORTED"}:
            raise ToolError(f"{result['errorText']} at {url[:300]}")

    async def go_back(self) -> None:
        """Open the previous page of the history."""
        history = await self.call("Page.getNavigationHistory")
        place = history["currentIndex"]
        if place < 1 or history["entries"][place - 1]["url"] == "about:blank":
            raise ToolError("there is no previous page in this tab's history")
        await self.call("Page.navigateToHistoryEntry", entryId=history["entries"][place - 1]["id"])
        await self.settle()

    async def location(self) -> tuple[str, str]:
        """URL and title."""
        history = await self._devtools.call("Page.getNavigationHistory", self.session)
        if not history:
            return "", ""
        entry = history["entries"][history["currentIndex"]]
        return entry["url"], entry["title"] if entry["title"] != entry["url"] else ""

    # -- what is on it -------------------------------------------------------------------------------------------------

    async def snapshot(self, target: str | None = None, depth: int = 0) -> str:
        """The accessibility tree as text."""
        root = await self.element(target) if target else None
        if not await self._answers():
            raise ToolError("the page does not answer: a script keeps it busy; navigate to another page")
        count = int(await self._run("function() { return document.getElementsByTagName('*').length }") or 0)
        if count > _MAX_ELEMENTS:
            return f"- text: The page has {count} elements, too many to show; at most {_MAX_ELEMENTS} are shown."
        tree = await self.call("Accessibility.getFullAXTree")
        return snapshot_text(tree.get("nodes", ()), self.references, root.backend if root else None, depth)

    async def shows(self, text: str) -> bool:
        """True if the page shows this text."""
        return bool(await self._run("function(text) { return !!document.body && document.body.innerText.includes(text) }", text))

    async def element(self, target: str) -> Element:
        """The element of a reference or CSS selector; `ToolError` with the fix if there is none."""
        if _REF.match(target):
            if target not in self.references.by_ref:
                raise ToolError(_gone(target))
            return self.references.by_ref[target]
        root = (await self.call("DOM.getDocument", depth=0)).get("root", {}).get("nodeId", 0)
        try:
            found = (await self.call("DOM.querySelectorAll", nodeId=root, selector=target)).get("nodeIds", [])
        except ToolError as error:
            raise ToolError(f"`{target[:100]}` is neither a reference such as e12 nor a CSS selector") from error
        if len(found) != 1:
            raise ToolError(f"the selector `{target[:100]}` matches {len(found)} elements; use a reference from the snapshot")
        node = (await self.call("DOM.describeNode", nodeId=found[0]))["node"]
        return Element(target, node["backendNodeId"], node["localName"], "")

    async def screenshot(self, kind: str, clip: Element | None, *, whole: bool) -> bytes:
        """The picture of the visible part, of one element or of the whole page."""
        options: Fields = {"format": kind}
        if clip is not None:
            await self._scroll_to(clip)
            model = (await self.call("DOM.getBoxModel", backendNodeId=clip.backend)).get("model")
            if model:
                x, y = model["border"][:2]
                options["clip"] = {"x": x, "y": y, "width": model["width"], "height": model["height"], "scale": 1}
        elif whole:
            size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
            height = min(size["height"], 8_000)
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
            options["captureBeyondViewport"] = True
        return base64.b64decode((await self.call("Page.captureScreenshot", **options)).get("data", ""))

    # -- acting on it --------------------------------------------------------------------------------------------------

    async def click(self, element: Element, button: str = "left", *, count: int = 1, modifiers: Sequence[str] = ()) -> None:
        """Click the middle of an element with the mouse."""
        if element.role == "option":
            raise ToolError("an option of a list is chosen with `browser_select_option` on the list")
        x, y = await self._point(element)
        bits = modifier_bits(tuple(modifiers))
        await self._mouse("mouseMoved", x, y, modifiers=bits)
        for number in range(1, count + 1):
            await self._mouse("mousePressed", x, y, button=button, clickCount=number, modifiers=bits)
            await self._mouse("mouseReleased", x, y, button=button, clickCount=number, modifiers=bits)

    async def hover(self, element: Element) -> None:
        """Move the mouse over an element."""
        await self._mouse("mouseMoved", *await self._point(element))

    async def fill(self, element: Element, text: str, *, slowly: bool = False) -> None:
        """Replace the text of a field."""
        kind = await self._run_on(element, _EDITABLE)
        if kind in {"none", "disabled", "read-only"}:
            what = "not a text field" if kind == "none" else kind
            raise ToolError(f"element {element.ref} ({element.role}) is {what}; take a new snapshot and choose a text field")
        await self._scroll_to(element)
        if kind == "set":
            if not await self._run_on(element, _SET_VALUE, text):
                raise ToolError(
                    f"the field does not take {text[:60]!r}; dates are written YYYY-MM-DD, times HH:MM, colours #rrggbb"
                )
            return
        await self.call("DOM.focus", backendNodeId=element.backend)
        await self._run_on(element, _SELECT_ALL)
        if not text or slowly:
            await self.press("Delete")
        if slowly:
            for character in text:
                await self.press({"\n": "Enter", " ": "Space"}.get(character, character))
        elif text:
            await self.call("Input.insertText", text=text)

    async def choose(self, element: Element, values: Sequence[str]) -> None:
        """Select options of a list, by label or value."""
        found: Fields = await self._run_on(element, _CHOOSE, list(values)) or {}
        match found.get("problem"):
            case None:
                return
            case "option":
                known = ", ".join(map(repr, found["options"][:40]))
                raise ToolError(f"no option {', '.join(map(repr, values))[:200]} in {element.ref}; options: {known}")
            case "many":
                raise ToolError(f"the list takes one value, not {len(values)}")
            case "disabled":
                raise ToolError(f"the list {element.ref} is disabled")
            case _:
                raise ToolError(f"Element is not a <select> element: {element.ref} is a {element.role}; click it instead")

    async def set_checked(self, element: Element, *, checked: bool) -> None:
        """Tick or clear a box, or choose a radio button."""
        if bool(await self._run_on(element, "function() { return this.checked }")) != checked:
            await self.click(element)

    async def press(self, key: str) -> None:
        """Press a key where the focus is."""
        for event in key_events(key):
            if self.dialog is None:
                await self.call("Input.dispatchKeyEvent", **event)

    async def handle_dialog(self, text: str | None, *, accept: bool) -> None:
        """Answer the open dialog."""
        self.dialog = None  # before the call: the page may show the next one before this one is answered
        await self.call("Page.handleJavaScriptDialog", accept=accept, **({} if text is None else {"promptText": text}))
        await self.settle()

    async def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        if self.dialog is None:
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    async def _scroll_to(self, element: Element) -> None:
        try:
            await self.call("DOM.scrollIntoViewIfNeeded", backendNodeId=element.backend)
        except NoAnswerError:
            raise
        except ToolError as error:
            gone = "does not have a layout object" not in str(error)
            raise ToolError(
                _gone(element.ref)
                if gone
                else f"element {element.ref} is not visible; open the menu or section that it is in first"
            ) from error

    async def _point(self, element: Element) -> tuple[float, float]:
        """The middle of the element, where a click reaches it."""
        await self._scroll_to(element)
        found = await self.call("DOM.getContentQuads", backendNodeId=element.backend)
        quads: list[list[float]] = found.get("quads") or []
        if not quads:
            raise ToolError(f"element {element.ref} is not visible; open the menu or section that it is in first")
        x, y = sum(quads[0][0::2]) / 4, sum(quads[0][1::2]) / 4
        hit = await self._run_on(element, _HIT, x, y)
        if hit:
            raise ToolError(f"element {element.ref} is covered by {hit}; close what covers it, or take a new snapshot")
        return x, y

    async def _context(self) -> int:
        return (await self.call("Page.createIsolatedWorld", frameId=self._frame, worldName=_WORLD)).get("executionContextId", 0)

    async def _run(self, function: str, *arguments: Any) -> Any:
        """Call a function in the page."""
        result = await self.call(
            "Runtime.callFunctionOn",
            executionContextId=await self._context(),
            functionDeclaration=function,
            arguments=[{"value": each} for each in arguments],
            awaitPromise=True,
            returnByValue=True,
        )
        return result.get("result", {}).get("value")

    async def _run_on(self, element: Element, function: str, *arguments: Any) -> Any:
        """Call a function with the element as `this`."""
        try:
            node = await self.call("DOM.resolveNode", backendNodeId=element.backend, executionContextId=await self._context())
        except NoAnswerError:
            raise
        except ToolError as error:
            raise ToolError(_gone(element.ref)) from error
        result = await self.call(
            "Runtime.callFunctionOn",
            objectId=node["object"]["objectId"],
            functionDeclaration=function,
            arguments=[{"value": each} for each in arguments],
            returnByValue=True,
        )
        return result.get("result", {}).get("value")
