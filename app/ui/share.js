// Copies links, summaries and commands of this view, and saves the chart as it is drawn.
export default function ({ parentElement, data }) {
  const status = parentElement.querySelector("[role=status]");
  const say = (text) => { status.textContent = text; };
  const here = () => new URL(data.url || location.href, location.href).href;
  const acts = {
    link: () => copy(here()),
    markdown: () => copy(data.markdown.replaceAll(data.here, here())),
    command: () => copy(data.command),
    svg: () => save(drawn(data.chart).blob, `${data.name}.svg`),
    png: () => picture(drawn(data.chart)).then((blob) => save(blob, `${data.name}.png`)),
  };
  for (const button of parentElement.querySelectorAll("button")) {
    const act = acts[button.dataset.act];
    button.onclick = () => Promise.resolve().then(act).then(
      () => say(`${button.dataset.done}`),
      (error) => say(`That did not work: ${error.message}`),
    );
  }
}

async function copy(text) {
  // Browsers offer the clipboard only on pages with TLS and on those of this machine.
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.style.position = "fixed";
  field.style.opacity = "0";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("the browser does not let pages copy");
}

function drawn(name) {
  const charts = [...document.querySelectorAll(`[class*="st-key-${name}"] svg.marks`)];
  if (!charts.length) {
    throw new Error("the chart is not drawn yet, or has too many points for a drawing");
  }
  // Several charts stand in the picture as they stand on the page.
  const boxes = charts.map((chart) => chart.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const width = Math.max(...boxes.map((box) => box.right)) - left;
  const height = Math.max(...boxes.map((box) => box.bottom)) - top;
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  drawing.setAttribute("width", width);
  drawing.setAttribute("height", height);
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const main = document.querySelector(".stApp");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(main).backgroundColor);
  drawing.append(paper);
  charts.forEach((chart, index) => {
    const copied = chart.cloneNode(true);
    copied.setAttribute("x", boxes[index].left - left);
    copied.setAttribute("y", boxes[index].top - top);
    drawing.append(copied);
  });
  const text = new XMLSerializer().serializeToString(drawing);
  return { blob: new Blob([text], { type: "image/svg+xml" }), text, width, height };
}

async function picture({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // A busy browser begins to save some seconds later, and a revoked URL would save nothing.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
