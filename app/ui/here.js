// Lets links to another state of the page change its address without loading the page again.
export default function (component) {
  const { setTriggerValue } = component;
  const controller = new AbortController();
  document.addEventListener("click", (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a.hud-here");
    if (!link) return;
    event.preventDefault();
    setTriggerValue("query", new URL(link.href).search);
  }, { signal: controller.signal });
  // Until now a click has loaded the page again.
  document.body.classList.add("hud-follows");
  return () => {
    controller.abort();
    document.body.classList.remove("hud-follows");
  };
}
