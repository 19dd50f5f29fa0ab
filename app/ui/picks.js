// The selection in a table: boxes of one alert, of an event and of all share one set of ids.
export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const said = parentElement.querySelector("[role=status]");
  const controller = new AbortController();
  const known = new Set(data.known);
  const picked = new Set(data.picked.filter((id) => known.has(id)));
  const idsOf = (box) => box.dataset.pick.split(" ").filter((id) => known.has(id));

  function show() {
    for (const box of document.querySelectorAll("input.hud-pick")) {
      const num = idsOf(box).filter((id) => picked.has(id)).length;
      const isAll = num > 0 && num === idsOf(box).length;
      if (box.checked !== isAll) box.checked = isAll;
      if (box.indeterminate !== (num > 0 && !isAll)) box.indeterminate = num > 0 && !isAll;
    }
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("input.hud-pick")) return;
    for (const id of idsOf(event.target)) {
      if (event.target.checked) picked.add(id);
      else picked.delete(id);
    }
    show();
    said.textContent = `${picked.size} of ${known.size} alerts selected`;
    setStateValue("picked", [...picked]);
  }, { signal: controller.signal });

  // The table is drawn again without its ticks when an alert comes or goes.
  let isAsked = false;
  const watcher = new MutationObserver(() => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; show(); });
  });
  watcher.observe(document.body, { childList: true, subtree: true });
  show();
  return () => { controller.abort(); watcher.disconnect(); };
}
