"use strict";
// Draws each run of the page: its points, its graph and its curves, at the recorded iteration that the slider shows.
const INK = "#333", PALE = "#ccc", SECONDS = 9, ROUNDING = 1e-14;
const CURVES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
const HEAT = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function canvas(root, name) {
  const place = root.querySelector("canvas." + name), pen = place.getContext("2d");
  const side = place.clientWidth, ratio = window.devicePixelRatio || 1;
  place.width = side * ratio;
  place.height = place.clientHeight * ratio;
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  return [pen, side, place.clientHeight];
}

function heat(share) {
  const at = Math.max(0, Math.min(0.999, share)) * 4, low = Math.floor(at), part = at - low;
  return "rgb(" + HEAT[low].map((one, c) => Math.round(one + part * (HEAT[low + 1][c] - one))).join() + ")";
}

function dot(pen, x, y, radius, fill) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = fill;
  pen.fill();
}

function line(pen, points, colour, width = 1) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

function decades(rows) {
  let least = Infinity, most = ROUNDING;
  for (const row of rows)
    for (const one of row) {
      if (one > ROUNDING) least = Math.min(least, one);
      most = Math.max(most, one);
    }
  const low = Math.floor(Math.log10(Math.min(least, most)));
  return [low, Math.max(low + 1, Math.ceil(Math.log10(most)))];
}

const hue = (agent, n) => "hsl(" + Math.round((360 * agent) / n) + " 70% 42%)";

class Player {
  constructor(root) {
    this.root = root;
    this.run = JSON.parse(root.querySelector("script").textContent);
    this.n = this.run.places.length;
    this.frames = this.run.iteration.length;
    this.turn = this.facing();
    this.range = { distance: decades(this.run.distance), curves: decades(Object.values(this.run.curves)) };
    this.slider = root.querySelector("input");
    this.button = root.querySelector("button");
    this.slider.max = this.frames - 1;
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    root.querySelector("canvas.points").addEventListener("pointermove", (event) => {
      if (event.buttons) this.turn += event.movementX / 80;
      if (event.buttons) this.show(this.frame);
    });
    window.addEventListener("resize", () => this.show(this.frame));
    const still = window.matchMedia("(prefers-reduced-motion: reduce), print").matches;
    this.show(still ? this.frames - 1 : 0);
    if (!still) this.play();
  }

  facing() {
    const end = this.run.points ? this.run.points[this.frames - 1][0] : [0, -1];
    return Math.atan2(end[0], -end[1]) + 0.5;
  }

  play() {
    const first = this.frame >= this.frames - 1 ? 0 : this.frame, began = performance.now();
    this.button.textContent = "Pause";
    const tick = (now) => {
      const at = first + (Math.max(0, now - began) / 1000 / SECONDS) * this.frames;
      this.show(Math.min(this.frames - 1, Math.floor(at)), at % 1);
      this.timer = this.frame < this.frames - 1 ? requestAnimationFrame(tick) : this.stop();
    };
    this.timer = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
    return null;
  }

  show(frame, between = -1) {
    this.frame = frame;
    this.slider.value = frame;
    const run = this.run, counts = run.rounds[frame] + " rounds, " + (run.bytes[frame] / 1e6).toPrecision(2) + " MB";
    this.root.querySelector("output").textContent = "iteration " + run.iteration[frame] + ": " + counts;
    if (run.points) this.drawPoints();
    else this.drawAngles();
    this.drawGraph(between);
    this.drawCurves();
  }

  project([x, y, z]) {
    const c = Math.cos(this.turn), s = Math.sin(this.turn), tilt = 0.35;
    const right = c * x + s * y, depth = c * y - s * x;
    const up = Math.cos(tilt) * z - Math.sin(tilt) * depth;
    return [right, up, Math.cos(tilt) * depth + Math.sin(tilt) * z];
  }

  drawPoints() {
    const [pen, width, height] = canvas(this.root, "points"), run = this.run, scale = 0.4 * Math.min(width, height);
    const flat = run.points[0][0].length === 2;
    const place = (point) => {
      const [x, y, depth] = flat ? [point[0], point[1], -1] : this.project(point);
      return [width / 2 + scale * x, height / 2 - scale * y, depth];
    };
    pen.beginPath();
    pen.arc(width / 2, height / 2, scale, 0, 2 * Math.PI);
    pen.strokeStyle = flat ? INK : PALE;
    pen.stroke();
    for (let one = 0; one < 6 && !flat; one++) {
      const ring = (angle) => [Math.cos(one * 0.524) * Math.cos(angle), Math.sin(one * 0.524) * Math.cos(angle), Math.sin(angle)];
      const level = Math.sin((one - 2.5) * 0.45), round = Math.sqrt(1 - level * level);
      const belt = (angle) => [round * Math.cos(angle), round * Math.sin(angle), level];
      for (const curve of [ring, belt])
        line(pen, [...Array(61).keys()].map((i) => place(curve((i * Math.PI) / 30))), "#e8e8e8");
    }
    const now = run.points[this.frame];
    for (const [i, j] of run.edges) line(pen, [place(now[i]), place(now[j])], PALE);
    now.forEach((point, agent) => {
      const trail = [];
      for (let f = 0; f <= this.frame; f++) trail.push(place(run.points[f][agent]));
      line(pen, trail, hue(agent, this.n), 1.5);
      const [x, y, depth] = place(point);
      pen.globalAlpha = depth > 0 ? 0.45 : 1;
      dot(pen, x, y, 5, hue(agent, this.n));
      pen.globalAlpha = 1;
    });
  }

  drawAngles() {
    const [pen, width, height] = canvas(this.root, "points"), run = this.run, rows = run.angle || run.distance;
    const [low, high] = decades(rows.slice(1)), at = (value) => height - 25 - ((Math.log10(value) - low) / (high - low)) * (height - 40);
    this.axis(pen, width, at, low, high);
    rows[this.frame].forEach((value, agent) => {
      const x = 50 + ((agent + 0.5) / this.n) * (width - 60), y = Math.min(height - 25, at(Math.max(value, 1e-300)));
      line(pen, [[x, height - 25], [x, y]], PALE);
      dot(pen, x, y, 4, hue(agent, this.n));
    });
    pen.fillStyle = INK;
    pen.fillText("agents", width / 2, height - 8);
  }

  drawGraph(between) {
    const [pen, width, height] = canvas(this.root, "graph"), run = this.run, [low, high] = this.range.distance;
    const side = 0.8 * Math.min(width, height);
    const place = (agent) => [width / 2 + side * (run.places[agent][0] - 0.5), height / 2 - side * (run.places[agent][1] - 0.5)];
    for (const [i, j] of run.edges) line(pen, [place(i), place(j)], PALE);
    if (between >= 0)
      for (const [i, j] of run.edges)
        for (const [from, to] of [[place(i), place(j)], [place(j), place(i)]])
          dot(pen, from[0] + between * (to[0] - from[0]), from[1] + between * (to[1] - from[1]), 2, "#888");
    run.distance[this.frame].forEach((value, agent) => {
      const [x, y] = place(agent), share = (Math.log10(Math.max(value, 1e-300)) - low) / (high - low);
      dot(pen, x, y, this.n > 60 ? 4 : 11, heat(share));
      if (this.n > 30) return;
      pen.fillStyle = share > 0.6 ? "#000" : "#fff";
      pen.textAlign = "center";
      pen.fillText(String(agent), x, y + 4);
    });
  }

  axis(pen, width, at, low, high) {
    pen.fillStyle = INK;
    pen.textAlign = "right";
    const step = Math.ceil((high - low) / 6);
    for (let ten = low; ten <= high; ten += step) {
      line(pen, [[50, at(10 ** ten)], [width - 10, at(10 ** ten)]], "#eee");
      pen.fillText(ten > -4 && ten < 4 ? String(Number((10 ** ten).toPrecision(1))) : "1e" + ten, 45, at(10 ** ten) + 4);
    }
    pen.textAlign = "center";
  }

  drawCurves() {
    const [pen, width, height] = canvas(this.root, "curves"), run = this.run, [low, high] = this.range.curves;
    const last = run.iteration[this.frames - 1] || 1, across = (k) => 50 + (k / last) * (width - 60);
    const at = (value) => height - 40 - ((Math.log10(value) - low) / (high - low)) * (height - 55);
    this.axis(pen, width, at, low, high);
    Object.values(run.curves).forEach((values, number) => {
      const seen = values.map((value, f) => [across(run.iteration[f]), at(value)]).filter((_, f) => values[f] > ROUNDING);
      line(pen, seen, CURVES[number], 2);
    });
    const now = across(run.iteration[this.frame]);
    line(pen, [[now, 10], [now, height - 40]], INK);
    pen.fillStyle = INK;
    pen.fillText("0", 50, height - 24);
    pen.fillText(last + " iterations", width - 45, height - 24);
  }
}

document.querySelectorAll(".player").forEach((root) => new Player(root));
