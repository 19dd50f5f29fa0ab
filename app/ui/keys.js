// Keyboard shortcuts: j and k move through alerts, x selects one, d leads to the triage form, / to
// the search of the page or else of everything. Enter is the browser's own: j and k move the focus from link to link, which screen
// readers announce. The script also repairs elements of Streamlit and Vega as they appear: code that
// scrolls takes the focus, and the brush of a chart, empty without a mouse, is not announced.
const OFF = "hud-keys-off";
const SEARCH = "#search";
const CODE = "[data-testid=stCode] pre";
const BRUSH = 'svg g[class*="part_brush"]:not([aria-hidden])';

export default function (component) {
  const page = document;
  const controller = new AbortController();
  const heard = { signal: controller.signal };

  page.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (localStorage.getItem(OFF) || isTyping(event.target)) return;
    const acts = {
      j: () => move(1), k: () => move(-1), x: pick, d: () => decide(), "/": () => search(),
    };
    const act = acts[event.key];
    if (act && act()) event.preventDefault();
  }, heard);
  page.addEventListener("change", (event) => {
    if (!event.target.matches?.("input.hud-keys")) return;
    if (event.target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  }, heard);

  for (const box of page.querySelectorAll("input.hud-keys")) {
    box.checked = !localStorage.getItem(OFF);
  }
  if (location.hash === SEARCH) {
    history.replaceState(history.state, "", location.pathname + location.search);
    search(true);
  }
  const stop = watch(heard);
  return () => { controller.abort(); stop(); };
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

function stops() {
  return [...document.querySelectorAll("td.jump .text a")].filter((link) => link.checkVisibility());
}

function rowOf(element) {
  return element && element.closest("tr");
}

function move(step) {
  const links = stops();
  const row = rowOf(document.activeElement);
  const here = links.findIndex((link) => row && rowOf(link) === row);
  const next = links[here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step];
  if (!next) return false;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function pick() {
  const row = rowOf(document.activeElement);
  const box = row && row.querySelector("input.hud-pick");
  if (box) box.click();
  return Boolean(box);
}

function decide(patience = 20) {
  const field = document.querySelector("[data-testid=stForm] input:not([disabled])");
  if (field) field.focus();
  else if (patience > 0 && document.querySelector("input.hud-pick:checked")) {
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
