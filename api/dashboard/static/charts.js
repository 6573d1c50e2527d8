// Draws charts: the columns that a chart's table has, by uPlot; one crosshair reads all charts of a
// page, by mouse, touch and arrow keys, and a stretch that is marked leads to its list.
"use strict";

(() => {
  const LABELS_PX = 18;
  const TIMES = [[1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1000, "1 s"], [10000, "10 s"], [60000, "1 min"], [600000, "10 min"], [3600000, "1 h"]];
  // How the height of a figure grows: with its root, or its logarithm, so that one burst, or one
  // slow answer, leaves room for the rest.
  const SCALES = {
    counts: { fwd: Math.sqrt, bwd: (v) => v * v },
    times: { fwd: (v) => Math.log10(1 + Math.max(v, 0)), bwd: (v) => 10 ** v - 1 },
  };
  const charts = new Map();
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  // --- What a chart shows: its table -----------------------------------------------------------

  function read(figure) {
    const axis = $(".axis", figure).dataset;
    const rows = $$("tr[data-values]", figure);
    const kinds = $$("th[data-kind]", figure);
    const from = Number(axis.from);
    const step = Number(axis.step);
    const values = rows.map((row) => row.dataset.values.split(" ").map((each) => (each === "" ? null : Number(each))));
    return {
      rows, from, step, values,
      to: from + step * rows.length,
      now: axis.now ? Number(axis.now) : null,
      labels: JSON.parse(axis.labels),
      marks: $$("[data-marks]", figure).flatMap((each) => JSON.parse(each.dataset.marks)),
      kinds: kinds.map((each) => each.dataset.kind),
      names: kinds.map((each) => each.textContent.toLowerCase()),
    };
  }

  const middle = (shown, index) => shown.from + (index + 0.5) * shown.step;

  // The highest that the axis has to have room for.
  function top(chart) {
    const totals = chart.shown.values.map((row) => (chart.isCounts ? row.reduce((a, b) => a + b, 0) : row[1] || 0));
    const highest = Math.max(1, ...totals);
    return chart.isCounts ? highest : (TIMES.find(([ms]) => ms >= Math.max(highest, 10)) || TIMES.at(-1))[0];
  }

  // Round figures, from above, as many as there is room for.
  function lines(u, chart) {
    const most = top(chart);
    const round = chart.isCounts ? [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power)) : TIMES.map(([ms]) => ms);
    const found = [];
    let above = -Infinity;
    for (const each of round.filter((v) => v <= most).reverse()) {
      const at = u.valToPos(each, "y");
      if (at - above >= LABELS_PX && u.bbox.height / devicePixelRatio - at >= LABELS_PX) {
        found.unshift(each);
        above = at;
      }
    }
    return [0, ...found];
  }

  const short = (count) => (count >= 1e6 ? `${count / 1e6}M` : count >= 1e4 ? `${count / 1e3}k` : count.toLocaleString("en"));

  // --- Painting ----------------------------------------------------------------------------------

  // As the style sheet has it: theme, contrast and paper change it.
  function colour(chart, kind) {
    chart.probe.className = `key ${kind}`;
    return getComputedStyle(chart.probe).backgroundColor;
  }

  // What is still to come.
  function hatched(ctx, fill, px) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6 * px;
    const pen = tile.getContext("2d");
    pen.fillStyle = pen.strokeStyle = fill;
    pen.globalAlpha = 0.25;
    pen.fillRect(0, 0, tile.width, tile.height);
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5 * px;
    pen.beginPath();
    for (const at of [-3, 3, 9]) {
      pen.moveTo(at * px, 6 * px);
      pen.lineTo((at + 6) * px, 0);
    }
    pen.stroke();
    return ctx.createPattern(tile, "repeat");
  }

  function paint(u, chart) {
    const { ctx } = u;
    const { shown } = chart;
    const px = devicePixelRatio;
    const box = u.bbox;
    const foot = box.top + box.height;
    const x = (ms) => u.valToPos(ms, "x", true);
    const y = (value) => u.valToPos(value, "y", true);
    const fills = shown.kinds.map((kind) => colour(chart, kind));
    const coming = shown.kinds.map((kind, n) => (kind === "waiting" ? hatched(ctx, fills[n], px) : fills[n]));
    ctx.save();
    shown.values.forEach((row, index) => {
      const at = shown.from + index * shown.step;
      const left = Math.round(x(at + shown.step * 0.1));
      const width = Math.max(Math.round(x(at + shown.step * 0.9)) - left, px);
      if (chart.isCounts) {
        let below = 0;
        let bottom = foot;
        row.forEach((value, n) => {
          if (value) {
            below += value;
            // Something is seen of the smallest.
            const edge = Math.min(Math.round(y(below)), bottom - 2 * px);
            ctx.fillStyle = (at + shown.step > shown.now ? coming : fills)[n];
            ctx.fillRect(left, edge, width, bottom - edge);
            bottom = edge;
          }
        });
      } else if (row[1] !== null) {
        const [low, high] = row.map((value) => Math.round(y(Math.min(value, TIMES.at(-1)[0]))));
        ctx.globalAlpha = 0.3;
        ctx.fillStyle = fills[0];
        ctx.fillRect(left, high, width, low - high);
        ctx.globalAlpha = 1;
        ctx.fillRect(left, low - px, width, 2 * px);
        ctx.fillStyle = fills[1];
        ctx.fillRect(left, high - px, width, 2 * px);
      }
    });
    ctx.fillStyle = colour(chart, "cause");
    for (const [from, to] of shown.marks) {
      const [a, b] = [from, to ?? shown.now ?? shown.to].map((ms) => x(clamp(ms, shown.from, shown.to)));
      ctx.fillRect(a, foot + px, Math.max(b - a, 3 * px), 4 * px);
    }
    if (shown.now !== null) {
      const at = Math.round(x(shown.now));
      ctx.fillStyle = ctx.strokeStyle = chart.text();
      ctx.lineWidth = px;
      ctx.setLineDash([2 * px, 3 * px]);
      ctx.beginPath();
      ctx.moveTo(at, box.top - 8 * px);
      ctx.lineTo(at, foot);
      ctx.stroke();
      ctx.font = chart.font(px);
      Object.assign(ctx, { textBaseline: "top", textAlign: "left" });
      ctx.fillText("now", at + 4 * px, box.top - 10 * px);
    }
    ctx.restore();
  }

  // --- Reading: the crosshair, and a stretch from one column to another ------------------------

  function words(shown, first, last) {
    const time = shown.rows[first].cells[0].textContent;
    const rows = shown.rows.slice(first, last + 1);
    if (first === last) {
      const cells = [...rows[0].cells].slice(1).map((cell) => cell.textContent);
      const parts = cells.map((cell, n) => (shown.isCounts ? `${cell} ${shown.names[n]}` : `${shown.names[n]} ${cell}`));
      const seen = parts.filter((_, n) => shown.values[first][n] !== null && !(shown.isCounts && shown.values[first][n] === 0));
      return `${time} · ${seen.join(", ") || "nothing"}`;
    }
    const end = shown.rows[last + 1]?.cells[0].textContent || "the end";
    const sums = shown.names.map((name, n) => [shown.values.slice(first, last + 1).reduce((sum, row) => sum + row[n], 0), name]);
    const seen = shown.isCounts ? sums.filter(([sum]) => sum).map(([sum, name]) => `${sum.toLocaleString("en")} ${name}`) : [];
    return `${time} to ${end}${shown.isCounts ? ` · ${seen.join(", ") || "nothing"}` : ""}`;
  }

  // The columns of what is marked, or of the crosshair.
  function stretch(chart) {
    const { shown, u } = chart;
    if (chart.marked) {
      const places = chart.marked.map((ms) => clamp(Math.floor((ms - shown.from) / shown.step), 0, shown.rows.length - 1));
      return places.sort((a, b) => a - b);
    }
    const { left, idx } = u.cursor;
    return left < 0 || left > u.over.clientWidth || idx == null ? null : [idx, idx];
  }

  function tell(chart) {
    const { u, shown } = chart;
    const found = stretch(chart);
    const text = found ? words(shown, ...found) : "";
    const readout = $(`[data-readout="${shown.name}"]`);
    if (readout && readout.textContent !== text) {
      readout.textContent = text;
    }
    const isWide = chart.marked && found[0] < found[1];
    const [left, right] = isWide ? [shown.from + found[0] * shown.step, shown.from + (found[1] + 1) * shown.step].map((ms) => u.valToPos(ms, "x")) : [0, 0];
    u.setSelect({ left, top: 0, width: right - left, height: u.over.clientHeight }, false);
    u.over.setAttribute("aria-valuemax", shown.rows.length - 1);
    if (found) {
      u.over.setAttribute("aria-valuenow", found[1]);
      u.over.setAttribute("aria-valuetext", text);
    }
  }

  function point(chart, index) {
    const { u, shown } = chart;
    const at = clamp(index, 0, shown.rows.length - 1);
    u.setCursor({ left: u.valToPos(middle(shown, at), "x"), top: 0 }, true, true);
    return at;
  }

  function leave(chart) {
    chart.marked = null;
    chart.u.setCursor({ left: -10, top: -10 }, true, true);
  }

  function list(chart) {
    const begin = chart.figure.dataset.begin;
    const found = stretch(chart);
    if (begin && found) {
      const { from, step } = chart.shown;
      const iso = (index) => new Date(from + index * step).toISOString();
      location.assign(`${begin}${new URLSearchParams({ from: iso(found[0]), to: iso(found[1] + 1) })}`);
    }
  }

  function keys(chart, event) {
    const { shown, u } = chart;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key in moves && !event.ctrlKey && !event.altKey && !event.metaKey) {
      const begun = stretch(chart);
      const now = shown.now ? Math.floor((shown.now - shown.from) / shown.step) : shown.rows.length - 1;
      const before = begun ? (chart.marked ? Math.floor((chart.marked[1] - shown.from) / shown.step) : begun[0]) : now;
      const at = clamp(begun ? before + moves[event.key] : now, 0, shown.rows.length - 1);
      const anchor = chart.marked ? chart.marked[0] : middle(shown, before);
      chart.marked = event.shiftKey ? [anchor, middle(shown, at)] : null;
      point(chart, at);
    } else if (event.key === "Enter") {
      list(chart);
    } else if (event.key === "Escape" && u.cursor.left >= 0) {
      leave(chart);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // A mouse leads at once to the list of a column; a finger reads it first. What scrolls the page up
  // and down marks nothing: the browser cancels it.
  function presses(chart) {
    const { over } = chart.u;
    const place = (event) => {
      const box = over.getBoundingClientRect();
      return chart.u.posToIdx(clamp(event.clientX - box.left, 0, box.width - 1));
    };
    over.addEventListener("pointerdown", (event) => {
      if (event.button === 0) {
        chart.before = stretch(chart)?.[0];
        chart.pressed = place(event);
        over.setPointerCapture(event.pointerId);
      }
    });
    over.addEventListener("pointermove", (event) => {
      if (chart.pressed !== null) {
        const at = place(event);
        if (at !== chart.pressed || chart.marked) {
          chart.marked = [middle(chart.shown, chart.pressed), middle(chart.shown, at)];
        }
        point(chart, at);
      }
    });
    over.addEventListener("pointerup", (event) => {
      const at = chart.pressed;
      chart.pressed = null;
      if (at !== null) {
        if (chart.marked || event.pointerType !== "touch" || chart.before === at) {
          point(chart, place(event));
          list(chart);
        } else {
          point(chart, at);
        }
      }
    });
    over.addEventListener("pointercancel", () => {
      chart.pressed = null;
      leave(chart);
    });
    over.addEventListener("keydown", (event) => keys(chart, event));
    over.addEventListener("blur", () => leave(chart));
  }

  // --- A chart for each figure --------------------------------------------------------------------

  function options(chart, width, height) {
    const isSlim = chart.figure.matches(".slim");
    const grid = { stroke: () => colour(chart, "grid"), width: 1 };
    const axis = { stroke: () => chart.muted(), font: chart.font(1), ticks: { show: false }, filter: (u, at) => at };
    const steps = SCALES[chart.figure.dataset.scale];
    return {
      width, height,
      padding: [isSlim ? 8 : 14, 8, 0, isSlim ? 8 : 0],
      legend: { show: false },
      series: [{}, ...chart.shown.kinds.map(() => ({ paths: () => null, points: { show: false } }))],
      scales: {
        x: { time: false, range: () => [chart.shown.from, chart.shown.to] },
        y: { distr: 100, ...steps, range: () => [0, top(chart)] },
      },
      axes: [
        {
          ...axis, size: 20, gap: 4, grid: { show: false },
          splits: () => chart.shown.labels.map(([ms]) => ms),
          values: (u, at) => at.map((ms) => (Math.abs(u.valToPos(ms, "x") - u.over.clientWidth / 2) > u.over.clientWidth / 2 - 14 ? "" : new Map(chart.shown.labels).get(ms))),
        },
        {
          ...axis, size: 46, gap: 6, grid, show: !isSlim,
          splits: (u) => lines(u, chart),
          values: (u, at) => at.map((v) => (chart.isCounts || v === 0 ? short(v) : new Map(TIMES).get(v))),
        },
      ],
      cursor: {
        y: false, drag: { x: false, y: false }, points: { show: false },
        sync: { key: "charts", scales: ["x", null] },
        move: (u, left, y) => (left < 0 || left > u.over.clientWidth ? [-10, -10] : [u.valToPos(middle(chart.shown, u.posToIdx(left)), "x"), y]),
      },
      hooks: { draw: [(u) => paint(u, chart)], setCursor: [() => chart.u && tell(chart)] },
    };
  }

  const data = ({ rows, kinds, values, ...shown }) => [rows.map((_, n) => middle(shown, n)), ...kinds.map((_, k) => values.map((row) => row[k]))];

  function make(figure) {
    const plot = $(".plot", figure);
    const height = $("canvas", plot).height;
    const probe = document.createElement("i");
    const style = (name) => getComputedStyle(name === "text" ? figure : plot);
    const chart = { figure, plot, probe, marked: null, pressed: null, isCounts: figure.dataset.scale === "counts" };
    chart.muted = () => style("muted").color;
    chart.text = () => style("text").color;
    chart.font = (px) => `${parseFloat(style("muted").fontSize) * px}px ${style("muted").fontFamily}`;
    const shownOf = () => ({ ...read(figure), name: figure.dataset.chart, isCounts: chart.isCounts });
    chart.shown = shownOf();
    plot.replaceChildren();
    chart.u = new uPlot(options(chart, plot.clientWidth, height), data(chart.shown), plot);
    probe.hidden = true;
    plot.append(probe);
    const label = `${figure.getAttribute("aria-label")}: arrow keys read its columns; with Shift they mark some, which Enter lists`;
    const { over } = chart.u;
    Object.entries({ role: "slider", tabindex: 0, "aria-label": label, "aria-valuemin": 0, "aria-valuenow": 0, "aria-valuetext": "" }).forEach(([name, value]) => over.setAttribute(name, value));
    presses(chart);
    chart.sizes = new ResizeObserver(() => chart.u.setSize({ width: plot.clientWidth, height }));
    chart.sizes.observe(plot);
    chart.update = () => {
      const before = JSON.stringify(data(chart.shown));
      chart.shown = shownOf();
      if (JSON.stringify(data(chart.shown)) !== before) {
        chart.u.setData(data(chart.shown));
      } else {
        chart.u.redraw(false);
      }
      tell(chart);
    };
    charts.set(plot, chart);
  }

  function update() {
    for (const [plot, chart] of charts) {
      if (!plot.isConnected) {
        chart.sizes.disconnect();
        chart.u.destroy();
        charts.delete(plot);
      }
    }
    $$(".chart").forEach((figure) => (charts.get($(".plot", figure)) ? charts.get($(".plot", figure)).update() : make(figure)));
  }

  const repaint = () => charts.forEach((chart) => chart.u.redraw(false, true));

  document.addEventListener("htmx:afterSettle", update);
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)"]) {
    matchMedia(query).addEventListener("change", repaint);
  }
  document.fonts.ready.then(repaint);
  update();
})();
