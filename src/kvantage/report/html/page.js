// Draws the charts of a report when they come near the view, hands out their data, copies listings.
(() => {
  "use strict";
  const content = (figure) =>
    JSON.parse(figure.querySelector('script[type="application/json"]').textContent);

  // Values are shown as text and nothing else: a name may hold any markup.
  const shown = (value) =>
    value === null || value === undefined
      ? "–"
      : typeof value === "number"
        ? String(Number(value.toPrecision(6)))
        : String(value);

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  const tooltip = (_view, event, _item, value) => {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    tip.replaceChildren();
    const pairs = typeof value === "object" ? Object.entries(value) : [["", value]];
    for (const [name, each] of pairs) {
      const line = document.createElement("div");
      line.textContent = name ? `${name}: ${shown(each)}` : shown(each);
      tip.append(line);
    }
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  };

  async function draw(figure) {
    if (figure.dataset.state !== "waiting") return;
    figure.dataset.state = "drawing";
    const plot = figure.querySelector(".plot");
    try {
      const { spec, rows } = content(figure);
      spec.config.legend.columns = Math.max(2, Math.floor(plot.clientWidth / 125));
      await vegaEmbed(
        plot,
        { ...spec, data: { values: rows } },
        { mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip },
      );
      // The place has the words for it; the marks of the drawing have none of their own.
      plot.querySelector("svg").setAttribute("aria-hidden", "true");
      figure.dataset.state = "drawn";
    } catch (error) {
      figure.dataset.state = "failed";
      plot.textContent = "This chart could not be drawn; its data is below.";
      console.error(error);
    }
  }

  const charts = [...document.querySelectorAll("figure.chart")];
  const near = new IntersectionObserver(
    (seen) => seen.filter((each) => each.isIntersecting).forEach((each) => draw(each.target)),
    { rootMargin: "400px" },
  );
  charts.forEach((figure) => near.observe(figure));

  // The others one by one while nothing else happens, so that a printout has them all.
  const later = (work) =>
    window.requestIdleCallback ? requestIdleCallback(work, { timeout: 500 }) : setTimeout(work, 50);
  const rest = async () => {
    const next = charts.find((each) => each.dataset.state === "waiting" && each.offsetParent !== null);
    if (!next) return;
    await draw(next);
    later(rest);
  };
  addEventListener("load", () => later(rest));

  const columns = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const heading = (name, units) => (units[name] ? `${name} (${units[name]})` : name);

  function quoted(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    // A spreadsheet must not take a name for a formula.
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function comma({ rows, units }) {
    const names = columns(rows);
    const lines = [names.map((name) => quoted(heading(name, units)))];
    rows.forEach((row) => lines.push(names.map((name) => quoted(row[name]))));
    return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
  }

  function tabled({ rows, units }) {
    const table = document.createElement("table");
    const names = columns(rows);
    const head = table.createTHead().insertRow();
    names.forEach((name) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = heading(name, units);
      head.append(cell);
    });
    const body = table.createTBody();
    rows.forEach((row) => {
      const line = body.insertRow();
      names.forEach((name) => {
        const cell = line.insertCell();
        cell.textContent = shown(row[name]);
        if (typeof row[name] === "number") cell.className = "n";
      });
    });
    return table;
  }

  function copyByHand(text) {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  document.addEventListener(
    "toggle",
    (event) => {
      const fold = event.target;
      if (!fold.open || !fold.matches("details.data")) return;
      const place = fold.querySelector(".scroll");
      if (!place.firstChild) place.append(tabled(content(fold.closest("figure"))));
    },
    true,
  );

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (button?.matches(".download")) {
      const text = comma(content(button.closest("figure")));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = button.dataset.file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    } else if (button?.matches(".copy")) {
      const text = button.closest(".listing").querySelector("code").textContent;
      let done = false;
      try {
        await navigator.clipboard.writeText(text);
        done = true;
      } catch {
        done = copyByHand(text);
      }
      const label = button.firstChild;
      label.textContent = done ? "Copied" : "Select the text and copy it";
      setTimeout(() => (label.textContent = "Copy"), 2000);
    }
  });

  // A narrow page starts with its list of contents folded.
  if (innerWidth < 1100) document.querySelector("nav details").open = false;
})();
