// What makes the pages live: charts, copying, and a tick that lets htmx ask for news while the page
// is looked at. Nothing here is needed to read or to write.
"use strict";

(() => {
  const TICK_MS = 2000;
  const UTC = "Etc/UTC";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 46rem)");

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const pad = (n) => String(n).padStart(2, "0");

  // --- Copying --------------------------------------------------------------------------------

  // Browsers lend the clipboard to https and to localhost only; elsewhere the old way still works.
  async function copy(text) {
    if (navigator.clipboard && isSecureContext) {
      return navigator.clipboard.writeText(text);
    }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) {
      throw new Error("not copied");
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) {
      return;
    }
    const code = button.closest(".copyable").querySelector("code");
    try {
      await copy(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // --- Charts ---------------------------------------------------------------------------------

  let drawn = []; // {plot, values} of the page that is shown
  let last = null;

  // Times as the server has them: UTC.
  function when(seconds, stepS) {
    const at = new Date(seconds * 1000).toISOString();
    return stepS >= 86400 ? at.slice(0, 10) : `${at.slice(0, 10)} ${at.slice(11, 16)}`;
  }

  const span = (ms) => (ms >= 1000 ? `${+(ms / 1000).toFixed(1)} s` : `${+ms.toFixed(ms < 10 ? 1 : 0)} ms`);
  const whole = (n) => n.toLocaleString("en");

  function axes(words) {
    const grid = { stroke: colour("--line"), width: 1 };
    const common = { stroke: colour("--muted"), font: "12px system-ui, sans-serif", grid, ticks: grid };
    const days = (u, splits, _axis, _space, step) =>
      splits.map((s) => {
        const at = new Date(s * 1000).toISOString();
        return step >= 86400 ? at.slice(5, 10) : at.slice(11, 16);
      });
    return [
      { ...common, size: 30, grid: { show: false }, values: days, space: narrow.matches ? 60 : 70 },
      { ...common, size: 52, space: 34, values: (u, splits) => splits.map((s) => (s % 1 ? "" : words(s))) },
    ];
  }

  function base(element, height, stepS, words = whole) {
    return {
      width: element.clientWidth,
      height,
      padding: [10, 20, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), UTC),
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      axes: axes(words),
      scales: {
        x: { time: true, range: (u, min, max) => [min, max + stepS] },
        y: { range: (u, min, max) => [0, Math.max(4, max * 1.08)] },
      },
    };
  }

  const bars = () => uPlot.paths.bars({ size: [0.78, 40], align: 1, radius: 0.12 });
  const count = (u, value) => (value == null ? "" : value.toLocaleString("en"));

  function bar(label, name) {
    return { label, fill: colour(name), stroke: colour(name), width: 0, paths: bars(), points: { show: false }, value: count };
  }

  const time = (stepS) => ({ label: "\u00a0", value: (u, value) => (value == null ? "" : when(value, stepS)) });

  const CHARTS = {
    fired: (element, data) => ({
      ...base(element, 190, data.stepS),
      series: [time(data.stepS), bar("Fired", "--bar"), bar("Failed", "--bad")],
    }),
    response: (element, data) => {
      const options = base(element, 150, data.stepS, span);
      const line = {
        label: "Response time", stroke: colour("--accent"), width: 2, spanGaps: false,
        points: { show: true, size: 5, fill: colour("--card") },
        value: (u, value) => (value == null ? "" : span(value)),
      };
      return { ...options, series: [time(data.stepS), line] };
    },
    coming: (element) => ({
      ...base(element, 170, 60),
      series: [time(60), bar("Due", "--wait")],
    }),
  };

  const VALUES = {
    fired: (data) => [data.at, data.fired, data.failed],
    response: (data) => [data.at, data.responseMs],
    coming: (data) => [data.comingAt, data.coming],
  };

  const total = (values) => values.reduce((sum, value) => sum + value, 0).toLocaleString("en");

  const WORDS = {
    fired: (data) => `Executions: ${total(data.fired)} fired, ${total(data.failed)} of them failed`,
    response: () => "Median response time in milliseconds",
    coming: (data) => `${total(data.coming)} schedules are due in the next three hours`,
  };

  function draw(data) {
    drawn.forEach((each) => each.plot.destroy());
    drawn = [];
    for (const element of document.querySelectorAll("[data-chart]")) {
      const name = element.dataset.chart;
      const plot = new uPlot(CHARTS[name](element, data), VALUES[name](data), element);
      drawn.push({ plot, element, name });
    }
    tell(data);
  }

  function tell(data) {
    for (const { element, name } of drawn) {
      element.setAttribute("aria-label", WORDS[name](data));
    }
  }

  function redraw() {
    if (last && document.querySelector("[data-chart]")) {
      draw(last);
    }
  }

  async function refresh() {
    const charts = document.querySelector("[data-charts]");
    if (!charts || typeof uPlot === "undefined") {
      return;
    }
    let data;
    try {
      const answer = await fetch(charts.dataset.charts);
      if (!answer.ok || answer.redirected) {
        return; // the store is away for a moment, or the session has ended: the tiles say which
      }
      data = await answer.json();
    } catch {
      return;
    }
    const same = last && last.stepS === data.stepS && drawn.length && drawn.every((each) => each.element.isConnected);
    last = data;
    if (!same) {
      draw(data);
      return;
    }
    drawn.forEach(({ plot, name }) => plot.setData(VALUES[name](data)));
    tell(data);
  }

  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  new ResizeObserver(() => {
    for (const { plot, element } of drawn) {
      if (element.clientWidth && element.clientWidth !== plot.width) {
        plot.setSize({ width: element.clientWidth, height: plot.height });
      }
    }
  }).observe(document.body);

  // --- Live -----------------------------------------------------------------------------------

  function tick() {
    if (document.hidden) {
      return;
    }
    document.querySelectorAll('[hx-trigger="live"]').forEach((each) => htmx.trigger(each, "live"));
    refresh();
  }

  document.addEventListener("DOMContentLoaded", refresh);
  document.addEventListener("visibilitychange", tick);
  setInterval(tick, TICK_MS);
})();
