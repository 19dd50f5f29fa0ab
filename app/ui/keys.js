// Keyboard shortcuts: j and k move through the rows of a grid, x selects one, Enter opens its first
// link, d leads to the triage form, / to the search of the page or else of everything, Escape out of
// a text field. The script also repairs elements of Streamlit and Vega as they appear: code that
// scrolls takes the focus, the brush of a chart, empty without a mouse, is not announced, links in a
// grid open in this window, and the navigation leads from a filtered page to the plain one.
const OFF = "hud-keys-off";
const SEARCH = "#search";
const CODE = "[data-testid=stCode] pre";
const GRID = "[data-testid=stDataFrame]";
const SELECTED = "td[aria-selected=true]";
const ENTRIES = ["stTopNavLink", "stSidebarNavLink", "stPageLink-NavLink"]
  .map((name) => `a[data-testid="${name}"]`).join();
// React draws a grid anew within this time.
const GRID_DELAY_MS = 30;
// The cells for screen readers follow a grid within this time.
const CELLS_DELAY_MS = 1000;
let enteredAt = 0;
const BRUSH = 'svg g[class*="part_brush"]:not([aria-hidden])';

export default function (component) {
  const page = document;
  const controller = new AbortController();
  const heard = { signal: controller.signal };

  page.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") leave(event.target);
    if (localStorage.getItem(OFF) || isTyping(event.target)) return;
    const acts = {
      j: () => move("ArrowDown"), k: () => move("ArrowUp"), x: pick, d: () => decide(),
      "/": () => search(), Enter: open,
    };
    const act = acts[event.key];
    if (!act || !act()) return;
    event.preventDefault();
    // The grid would open its own window for the text of a link.
    event.stopPropagation();
  }, { ...heard, capture: true });
  page.addEventListener("change", (event) => {
    if (!event.target.matches?.("input.hud-keys")) return;
    if (event.target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  }, heard);

  page.addEventListener("click", toPlainPage, { ...heard, capture: true });

  for (const box of page.querySelectorAll("input.hud-keys")) {
    box.checked = !localStorage.getItem(OFF);
  }
  if (location.hash === SEARCH) {
    history.replaceState(history.state, "", location.pathname + location.search);
    search(true);
  }
  const stop = watch(heard);
  const restore = openHere(heard);
  return () => { controller.abort(); stop(); restore(); };
}

// A link in a grid opens in this window, as other links do; with a modifier key in one of its own.
function openHere(heard) {
  let isPlain = false;
  document.addEventListener("pointerdown", (event) => {
    const isModified = event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0;
    isPlain = !isModified && Boolean(event.target.closest?.(GRID));
  }, { ...heard, capture: true });
  const open = window.open;
  window.open = function (url, ...rest) {
    const isOurs = typeof url === "string" && url.startsWith("./");
    if (!isPlain || !isOurs) return open.call(window, url, ...rest);
    location.assign(new URL(url, location.href));
    return null;
  };
  return () => { window.open = open; };
}

// Streamlit ignores a click on the entry of the page that is shown, whatever its address filters.
function toPlainPage(event) {
  if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const entry = event.target.closest?.(ENTRIES);
  if (!entry || !location.search) return;
  const url = new URL(entry.href, location.href);
  if (url.pathname !== location.pathname) return;
  event.preventDefault();
  event.stopPropagation();
  location.assign(url.pathname);
}

function watch(heard) {
  let frame = 0;
  const known = new WeakSet();
  const soon = () => { frame ||= requestAnimationFrame(now); };
  const now = () => {
    frame = 0;
    for (const code of mend()) {
      // An element that is observed a second time would be reported a second time.
      if (known.has(code)) continue;
      known.add(code);
      sizes.observe(code);
    }
  };
  const observer = new MutationObserver(soon);
  observer.observe(document.body, { childList: true, subtree: true });
  // Code may begin to scroll without a change of the page: when it is shown, or in another font.
  const sizes = new ResizeObserver(soon);
  document.fonts.addEventListener("loadingdone", soon, heard);
  addEventListener("resize", soon, heard);
  soon();
  return () => { observer.disconnect(); sizes.disconnect(); cancelAnimationFrame(frame); };
}

function mend() {
  const codes = document.querySelectorAll(CODE);
  for (const code of codes) {
    const scrolls = code.scrollWidth > code.clientWidth || code.scrollHeight > code.clientHeight;
    if (scrolls !== (code.tabIndex === 0)) code.tabIndex = scrolls ? 0 : -1;
  }
  for (const brush of document.querySelectorAll(BRUSH)) brush.setAttribute("aria-hidden", "true");
  return codes;
}

function isTyping(target) {
  if (target.isContentEditable) return true;
  if (target.matches("textarea, select")) return true;
  return target.matches("input") && !["checkbox", "radio", "button"].includes(target.type);
}

// Escape closes a list or a popover by itself.
function leave(field) {
  const closes = field.closest?.("[role=combobox], [data-baseweb=popover], [role=dialog]");
  if (!closes && isTyping(field)) field.blur();
}

// The grid in which the focus is, or else the first one of the page.
function grid() {
  const focused = document.activeElement?.closest?.(GRID);
  return (focused || document.querySelector(GRID))?.querySelector("canvas") ?? null;
}

// The focus is in the cell for screen readers, which is within the canvas.
function hasFocus(canvas) {
  return Boolean(canvas?.contains(document.activeElement));
}

// A grid draws itself, and its cells are elements for screen readers only: it obeys its own keys.
function send(canvas, key, more = {}) {
  const event = { key, bubbles: true, cancelable: true, ...more };
  canvas.dispatchEvent(new KeyboardEvent("keydown", event));
}

// A grid ignores keys once the mouse has left it, so a mouse seems to be over it meanwhile.
function attended(canvas, act) {
  if (canvas.matches(":hover")) {
    act();
    return;
  }
  const { left, top } = canvas.getBoundingClientRect();
  point(canvas, left + 20, top + 8);
  requestAnimationFrame(() => setTimeout(() => {
    act();
    point(canvas, -1, -1);
  }, GRID_DELAY_MS));
}

function point(canvas, clientX, clientY) {
  for (const type of ["pointermove", "mousemove"]) {
    canvas.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX, clientY }));
  }
}

function move(key) {
  const canvas = grid();
  if (!canvas) return false;
  attended(canvas, () => {
    if (!hasFocus(canvas)) {
      canvas.focus();
      canvas.scrollIntoView({ block: "nearest" });
      enteredAt = Date.now();
      // The focus itself selects the first cell.
      if (!canvas.querySelector(SELECTED)) return;
    } else if (!canvas.querySelector(SELECTED) && Date.now() - enteredAt > CELLS_DELAY_MS) {
      // A grid that was busy has missed the focus.
      document.activeElement.blur();
      canvas.focus();
      enteredAt = Date.now();
      return;
    }
    send(canvas, key);
  });
  return true;
}

function pick() {
  const canvas = grid();
  if (!hasFocus(canvas)) return false;
  send(canvas, " ", { code: "Space", shiftKey: true });
  return true;
}

function open() {
  const canvas = grid();
  if (!hasFocus(canvas)) return false;
  const row = canvas.querySelector(SELECTED)?.closest("tr");
  const link = [...(row?.children ?? [])].find((cell) => cell.textContent.startsWith("./"));
  if (link) location.assign(new URL(link.textContent, location.href));
  return Boolean(link);
}

function decide(patience = 20) {
  const field = document.querySelector("[data-testid=stForm] input:not([disabled])");
  if (field) field.focus();
  else if (patience > 0 && document.querySelector(`${GRID} tr[aria-selected=true]`)) {
    // The form comes from the server a moment after the selection.
    setTimeout(() => decide(patience - 1), 100);
  }
  return Boolean(field);
}

// A page that is still being drawn may get a search field later, so the key waits for it.
function isDrawn() {
  const app = document.querySelector("[data-test-script-state]");
  return !app || app.dataset.testScriptState === "notRunning";
}

function search(isSent = false, patience = 40, path = location.pathname) {
  // A search for a page that the person has left is dropped.
  if (location.pathname !== path) return true;
  const fields = [...document.querySelectorAll("input[aria-label]")].filter(isTyping);
  const named = (words) => fields.find((one) => words.test(one.getAttribute("aria-label")));
  const field = named(/^search\b/i);
  // A field of a page that is still being drawn loses what is typed into it.
  if (field && (isDrawn() || !isSent)) field.focus();
  else if (isSent || !isDrawn()) {
    if (patience > 0) setTimeout(() => search(isSent, patience - 1, path), 250);
  } else location.assign("./search" + SEARCH);
  return true;
}
