// Draws charts by uPlot from their tables. One crosshair reads all charts of a page, by mouse, touch
// and arrow keys; a column, or a stretch of them that is marked, leads to its list.
"use strict";

(() => {
  const LABEL_PX = 18;
  const COUNTS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((power) => [power, 2 * power, 5 * power]);
  const TIMES = new Map([
    [1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1e3, "1 s"],
    [1e4, "10 s"], [6e4, "1 min"], [6e5, "10 min"], [36e5, "1 h"],
  ]);
  const LONGEST = 36e5;
  // Heights grow with the root of a count and the logarithm of a time: one burst, or one slow
  // answer, does not flatten the rest.
  const SCALES = {
    counts: { fwd: Math.sqrt, bwd: (v) => v * v },
    times: { fwd: (v) => Math.log10(1 + Math.max(v, 0)), bwd: (v) => 10 ** v - 1 },
  };
  const charts = new Map();
  const $ = (selector, within) => within.querySelector(selector);
  const $$ = (selector, within) => [...within.querySelectorAll(selector)];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const add = (a, b) => a + b;

  // --- What a table says --------------------------------------------------------------------------

  function read({ figure, isCounts }) {
    const axis = $(".axis", figure).dataset;
    const rows = $$("tr[data-values]", figure);
    const heads = $$("th[data-kind]", figure);
    const values = rows.map((row) => row.dataset.values.split(" ").map((each) => (each === "" ? null : Number(each))));
    const [from, step] = [Number(axis.from), Number(axis.step)];
    const highest = Math.max(...values.map((row) => (isCounts ? row.reduce(add) : row[1] || 0)), 1);
    return {
      rows, values, from, step,
      to: from + step * rows.length,
      now: axis.now && Number(axis.now),
      labels: new Map(JSON.parse(axis.labels)),
      marks: $$("[data-marks]", figure).flatMap((each) => JSON.parse(each.dataset.marks)),
      kinds: heads.map((each) => each.dataset.kind),
      names: heads.map((each) => each.textContent.toLowerCase()),
      top: isCounts ? highest : [...TIMES.keys()].find((ms) => ms >= 10 && ms >= highest) || LONGEST,
      // As uPlot takes them: a place is the middle of its column.
      data: [rows.map((_, n) => from + (n + 0.5) * step), ...heads.map((_, k) => values.map((row) => row[k]))],
    };
  }

  const short = (count) => (count >= 1e6 ? `${count / 1e6}M` : count >= 1e4 ? `${count / 1e3}k` : count.toLocaleString("en"));

  // Round figures of an axis, as many as there is room for.
  function lines(u, { isCounts, shown }) {
    const found = [0];
    let above = -LABEL_PX;
    for (const each of (isCounts ? COUNTS : [...TIMES.keys()]).filter((v) => v <= shown.top).reverse()) {
      const at = u.valToPos(each, "y");
      if (at - above >= LABEL_PX && u.over.clientHeight - at >= LABEL_PX) {
        found.push(each);
        above = at;
      }
    }
    return found;
  }

  // --- Painting -------------------------------------------------------------------------------------

  // As the style sheet has it for this theme.
  function colour(chart, kind) {
    chart.probe.className = `key ${kind}`;
    return getComputedStyle(chart.probe).backgroundColor;
  }

  // What is still to come.
  function hatched(ctx, fill, px) {
    const tile = Object.assign(document.createElement("canvas"), { width: 6 * px, height: 6 * px });
    const pen = tile.getContext("2d");
    Object.assign(pen, { fillStyle: fill, strokeStyle: fill, lineWidth: 1.5 * px, globalAlpha: 0.25 });
    pen.fillRect(0, 0, 6 * px, 6 * px);
    pen.globalAlpha = 1;
    [-3, 3, 9].forEach((at) => { pen.moveTo(at * px, 6 * px); pen.lineTo((at + 6) * px, 0); });
    pen.stroke();
    return ctx.createPattern(tile, "repeat");
  }

  function paint(u, chart) {
    const { ctx, bbox: { top, height } } = u;
    const { shown } = chart;
    const px = devicePixelRatio;
    const foot = top + height;
    const x = (ms) => Math.round(u.valToPos(ms, "x", true));
    const y = (value) => Math.round(u.valToPos(value, "y", true));
    const fills = shown.kinds.map((kind) => colour(chart, kind));
    const coming = fills.map((fill, n) => (shown.kinds[n] === "waiting" ? hatched(ctx, fill, px) : fill));
    ctx.save();
    shown.values.forEach((row, index) => {
      const at = shown.from + index * shown.step;
      const left = x(at + 0.1 * shown.step);
      const fill = (style, from, to) => {
        ctx.fillStyle = style;
        ctx.fillRect(left, from, Math.max(x(at + 0.9 * shown.step) - left, px), to - from);
      };
      if (chart.isCounts) {
        let [sum, below] = [0, foot];
        row.forEach((value, n) => {
          sum += value;
          // Something is seen of the smallest.
          const edge = value ? Math.min(y(sum), below - 2 * px) : below;
          fill((at + shown.step > shown.now ? coming : fills)[n], edge, below);
          below = edge;
        });
      } else if (row[1] !== null) {
        const [low, high] = row.map((value) => y(Math.min(value, LONGEST)));
        ctx.globalAlpha = 0.3;
        fill(fills[0], high, low);
        ctx.globalAlpha = 1;
        fill(fills[0], low - px, low + px);
        fill(fills[1], high - px, high + px);
      }
    });
    ctx.fillStyle = colour(chart, "cause");
    for (const [from, to] of shown.marks) {
      const [a, b] = [from, to ?? shown.now ?? shown.to].map((ms) => x(clamp(ms, shown.from, shown.to)));
      ctx.fillRect(a, foot + px, Math.max(b - a, 3 * px), 4 * px);
    }
    if (shown.now) {
      const { color, fontSize, fontFamily } = chart.style;
      const font = `${parseFloat(fontSize) * px}px ${fontFamily}`;
      Object.assign(ctx, { fillStyle: color, font, textAlign: "left", textBaseline: "top" });
      for (let at = top - 8 * px; at < foot; at += 5 * px) {
        ctx.fillRect(x(shown.now), at, px, 2 * px);
      }
      ctx.fillText("now", x(shown.now) + 4 * px, top - 10 * px);
    }
    ctx.restore();
  }

  // --- Reading: a column, or a stretch that is marked from one moment to another ----------------

  const place = ({ shown }, ms) => clamp(Math.floor((ms - shown.from) / shown.step), 0, shown.rows.length - 1);

  function stretch(chart) {
    const { left, idx } = chart.u.cursor;
    const found = chart.marked?.map((ms) => place(chart, ms)).sort((a, b) => a - b);
    return found || (left < 0 || left > chart.u.over.clientWidth || idx == null ? null : [idx, idx]);
  }

  function words({ shown, isCounts }, first, last) {
    const time = shown.rows[first].cells[0].textContent;
    const day = time.slice(0, time.lastIndexOf(" ") + 1);
    const end = shown.rows[last + 1]?.cells[0].textContent.replace(day, "") || "the end";
    const sums = shown.names.map((name, n) => {
      const values = shown.values.slice(first, last + 1).map((row) => row[n]);
      if (isCounts) {
        return values.reduce(add) && `${values.reduce(add).toLocaleString("en")} ${name}`;
      }
      return first === last && values[0] !== null && `${name} ${shown.rows[first].cells[n + 1].textContent}`;
    });
    return `${time}${first < last ? ` to ${end}` : ""} · ${sums.filter(Boolean).join(", ") || (isCounts ? "nothing" : "–")}`;
  }

  function tell(chart) {
    const { u, shown, figure } = chart;
    const found = stretch(chart);
    const text = found ? words(chart, ...found) : "";
    const readout = $(".readout", figure);
    if (readout.textContent !== text) {
      readout.textContent = text;
    }
    const edges = chart.marked ? [found[0], found[1] + 1] : [0, 0];
    const [left, right] = edges.map((n) => u.valToPos(shown.from + n * shown.step, "x"));
    u.setSelect({ left, top: 0, width: right - left, height: u.over.clientHeight }, false);
    const [valuemax, valuenow, valuetext] = [shown.rows.length - 1, found?.[1] ?? 0, text || "nothing is read"];
    const said = { valuemin: 0, valuemax, valuenow, valuetext };
    Object.entries(said).forEach(([name, value]) => u.over.setAttribute(`aria-${name}`, value));
  }

  // What is marked is the same in all charts, as the crosshair is.
  function point(chart, index, anchor = null) {
    const { u, shown } = chart;
    const at = shown.data[0][clamp(index, 0, shown.rows.length - 1)];
    chart.marked = anchor === null ? null : [anchor, at];
    u.setCursor({ left: u.valToPos(at, "x"), top: 0 }, true, true);
  }

  function leave(chart) {
    chart.marked = chart.pressed = null;
    chart.u.setCursor({ left: -10, top: -10 }, true, true);
  }

  function list(chart) {
    const found = stretch(chart);
    const { begin } = chart.figure.dataset;
    if (found && begin) {
      const iso = (n) => new Date(chart.shown.from + n * chart.shown.step).toISOString();
      const [from, to] = [iso(found[0]), iso(found[1] + 1)];
      location.assign(begin + new URLSearchParams({ from, to }));
    }
  }

  const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

  function pressed(chart, event) {
    const now = place(chart, chart.shown.now || chart.shown.to);
    const head = chart.marked ? place(chart, chart.marked[1]) : stretch(chart)?.[0] ?? now;
    if (event.key in MOVES) {
      const anchor = event.shiftKey ? chart.marked?.[0] ?? chart.shown.data[0][head] : null;
      point(chart, head + MOVES[event.key], anchor);
    } else if (event.key === "Enter") {
      list(chart);
    } else if (event.key === "Escape" && stretch(chart)) {
      leave(chart);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // A mouse leads at once to the list of a column; a finger reads it first. One that scrolls the page
  // marks nothing: the browser takes its press away.
  function listen(chart) {
    const { over } = chart.u;
    const under = (event) => {
      const box = over.getBoundingClientRect();
      return chart.u.posToIdx(clamp(event.clientX - box.left, 0, box.width - 1));
    };
    const on = (name, act) => over.addEventListener(name, act);
    on("pointerdown", (event) => {
      if (event.button === 0) {
        chart.wasRead = stretch(chart)?.[0] === under(event);
        chart.pressed = chart.shown.data[0][under(event)];
        over.setPointerCapture(event.pointerId);
      }
    });
    on("pointermove", (event) => {
      if (chart.pressed !== null && (chart.marked || under(event) !== place(chart, chart.pressed))) {
        point(chart, under(event), chart.pressed);
      }
    });
    on("pointerup", (event) => {
      if (chart.pressed !== null) {
        point(chart, under(event), chart.marked && chart.pressed);
        chart.pressed = null;
        if (chart.marked || event.pointerType !== "touch" || chart.wasRead) {
          list(chart);
        }
      }
    });
    on("pointercancel", () => leave(chart));
    on("keydown", (event) => pressed(chart, event));
    on("focus", () => over.matches(":focus-visible") && point(chart, place(chart, chart.shown.now || chart.shown.to)));
    on("blur", () => leave(chart));
  }

  // --- A chart for each figure ----------------------------------------------------------------------

  function options(chart, height) {
    const { figure, style, isCounts } = chart;
    const isSlim = figure.matches(".slim");
    const font = `${style.fontSize} ${style.fontFamily}`;
    const axis = { stroke: () => style.color, font, ticks: { show: false }, filter: (u, at) => at };
    const grid = { stroke: () => colour(chart, "grid"), width: 1 };
    // A label at an edge would be cut.
    const isInside = (u, at) => at > 14 && at < u.over.clientWidth - 14;
    return {
      width: chart.plot.clientWidth, height,
      padding: [12, 8, 0, isSlim ? 8 : 0],
      legend: { show: false },
      series: [{}, ...chart.shown.kinds.map(() => ({ paths: () => null, points: { show: false } }))],
      scales: {
        x: { time: false, range: () => [chart.shown.from, chart.shown.to] },
        y: { distr: 100, ...SCALES[figure.dataset.scale], range: () => [0, chart.shown.top] },
      },
      axes: [
        {
          ...axis, size: 22, gap: 6, grid: { show: false }, splits: () => [...chart.shown.labels.keys()],
          values: (u, at) => at.map((ms) => (isInside(u, u.valToPos(ms, "x")) ? chart.shown.labels.get(ms) : "")),
        },
        {
          ...axis, size: 46, gap: 6, grid, show: !isSlim, splits: (u) => lines(u, chart),
          values: (u, at) => at.map((v) => (isCounts ? short(v) : TIMES.get(v) || "0")),
        },
      ],
      cursor: {
        y: false, drag: { x: false }, points: { show: false },
        sync: { key: "charts", scales: ["x", null] },
        move: (u, left, top) => {
          const isOutside = left < 0 || left > u.over.clientWidth;
          return isOutside ? [-10, -10] : [u.valToPos(chart.shown.data[0][u.posToIdx(left)], "x"), top];
        },
      },
      hooks: { draw: [(u) => paint(u, chart)], setCursor: [() => chart.u && tell(chart)] },
    };
  }

  function make(figure) {
    const plot = $(".plot", figure);
    const { height } = $("canvas", plot);
    const probe = Object.assign(document.createElement("i"), { hidden: true });
    const [style, isCounts] = [getComputedStyle(plot), figure.dataset.scale === "counts"];
    const chart = { figure, plot, probe, style, isCounts, marked: null, pressed: null };
    chart.shown = read(chart);
    plot.replaceChildren(probe);
    chart.u = new uPlot(options(chart, height), chart.shown.data, plot);
    const keys = "arrow keys read it, with Shift they mark a part, Enter lists that";
    Object.assign(chart.u.over, { role: "slider", tabIndex: 0, ariaLabel: `${figure.ariaLabel}: ${keys}` });
    listen(chart);
    chart.sizes = new ResizeObserver(() => chart.u.setSize({ width: plot.clientWidth, height }));
    chart.sizes.observe(plot);
    charts.set(plot, chart);
    return chart;
  }

  function update() {
    for (const [plot, chart] of charts) {
      if (!plot.isConnected) {
        chart.sizes.disconnect();
        chart.u.destroy();
        charts.delete(plot);
      }
    }
    for (const figure of $$(".chart", document)) {
      const chart = charts.get($(".plot", figure)) || make(figure);
      chart.shown = read(chart);
      chart.u.setData(chart.shown.data);
      tell(chart);
    }
  }

  const repaint = () => charts.forEach((chart) => chart.u.redraw(false, true));
  document.addEventListener("htmx:after:swap", update);
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", repaint);
  }
  // Paper is light.
  [["beforeprint", "light"], ["afterprint", ""]].forEach(([name, colorScheme]) => addEventListener(name, () => {
    charts.forEach(({ plot }) => Object.assign(plot.style, { colorScheme }));
    repaint();
  }));
  document.fonts.ready.then(repaint);
  update();
})();
