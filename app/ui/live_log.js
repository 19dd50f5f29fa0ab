// Appends new lines to a log; scroll position and selection stay as they are.
const MAX_LINES = 1000;

export default function ({ parentElement, data }) {
  const box = parentElement.querySelector("pre");
  const known = () => Number(box.lastElementChild?.dataset.offset ?? -1);
  const isFollowing = box.scrollHeight - box.scrollTop - box.clientHeight < 8;
  const newest = data.lines.at(-1)?.[0] ?? 0;
  // The log is of another case, or of a new attempt of the same one.
  if (box.dataset.log !== data.log || newest < known()) box.replaceChildren();
  box.dataset.log = data.log;
  if (box.lastElementChild && data.lines[0]?.[0] > known()) add(known(), "[...]");
  for (const [offset, text] of data.lines) {
    const last = box.lastElementChild;
    if (offset > known()) add(offset, text);
    else if (offset === known() && last.textContent !== text) last.textContent = text;
  }
  if (!isFollowing || !getSelection().isCollapsed) return;
  while (box.childElementCount > MAX_LINES) box.firstElementChild.remove();
  box.scrollTop = box.scrollHeight;

  function add(offset, text) {
    const line = document.createElement("div");
    line.dataset.offset = offset;
    line.textContent = text;
    box.append(line);
  }
}
