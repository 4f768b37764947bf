// The page's controls: read the settings, choose again, and show what changed.

const MAIN_TARGETS = ['accuracy', 'nll', 'ece', 'cwece'];
const SHOWN_ROWS = 10;
const PANELS = 3;
const FEW = 10;

/** Without what this needs, the page stays as it is without a script. */
async function start() {
  if (typeof DecompressionStream === 'undefined') return;
  const data = JSON.parse(byId('data').textContent);
  const page = {
    data,
    runs: await unpack(data),
    rules: Object.fromEntries(data.rules.map((rule) => [rule.name, rule])),
    metrics: Object.fromEntries(data.metrics.map((metric) => [metric.name, metric])),
    form: byId('controls'),
    held: byId('heldout'),
    work: 0,
  };
  document.documentElement.classList.add('js');
  page.form.hidden = false;
  reset(page);
  page.form.addEventListener('submit', (event) => event.preventDefault());
  page.form.addEventListener('input', (event) => {
    follow(page, event.target);
    render(page);
  });
  byId('reset').addEventListener('click', () => {
    reset(page);
    render(page);
  });
  for (const part of document.querySelectorAll('details[data-live]')) {
    part.addEventListener('toggle', () => part.open && render(page));
  }
  byId('split')?.addEventListener('input', () => render(page));
  matchMedia('(max-width: 40rem)').addEventListener('change', () => render(page));
  render(page);
}

/** Put the settings that the report was written with into the controls. */
function reset(page) {
  const { form, data } = page;
  const first = data.start;
  const field = (name) => form.elements.namedItem(name);
  if (field('run')) field('run').value = String(first.run);
  field('rule').value = first.rule;
  field('delta').value = first.delta;
  field('slider').value = first.delta;
  field('threshold').value = first.threshold;
  field('q').value = first.q;
  field('weights').value = first.weights;
  field('worst').checked = first.worst;
  tick(page, first.objectives);
}

/** Controls that belong together: slider and box, rule and objectives. */
function follow(page, changed) {
  const { form, rules } = page;
  const field = (name) => form.elements.namedItem(name);
  if (changed.name === 'slider') field('delta').value = changed.value;
  if (changed.name === 'delta' && decimal(changed.value)) field('slider').value = changed.value;
  if (changed.name === 'rule') {
    const { objectives } = rules[changed.value];
    if (objectives.length) tick(page, objectives);
  }
  if (changed.name === 'objective') {
    const ticked = tickedIn(form);
    const same = (rule) => rule.kind === 'constrained' && rule.objectives.length === ticked.length &&
      rule.objectives.every((name) => ticked.includes(name));
    const named = Object.values(rules).find(same);
    field('rule').value = (named ?? rules.ac).name;
  }
}

const boxes = (form) => [...form.querySelectorAll('input[name="objective"]')];
const tickedIn = (form) => boxes(form).filter((box) => box.checked).map((box) => box.value);

function tick(page, names) {
  for (const box of boxes(page.form)) box.checked = names.includes(box.value);
}

/** What the controls say, as rules.js takes it, with `problem` where it cannot be computed. */
function readSetting(page) {
  const value = (name) => page.form.elements.namedItem(name)?.value;
  const setting = {
    rule: page.rules[value('rule')],
    delta: decimal(value('delta')),
    threshold: decimal(value('threshold')),
    q: Number(value('q').replace('inf', 'Infinity')),
    objectives: tickedIn(page.form),
    weights: value('weights'),
    worst: page.form.elements.namedItem('worst').checked,
  };
  return { ...setting, problem: problemWith(page, setting) };
}

function problemWith(page, { rule, delta, threshold, objectives, weights, worst }) {
  if (!delta) return 'The tolerance has to be a number of points, such as 0.5.';
  if (rule.takes.includes('threshold_pp') && !threshold) {
    return 'The least accuracy has to be a number of points, such as 80.';
  }
  if (rule.takes.includes('objectives') && !objectives.length) return 'Choose an objective.';
  const needs = rule.kind === 'wald' ? ['ece'] : objectivesOf({ rule, objectives });
  const lacking = needs.find((name) =>
    page.runs.some((run) => !carries(run, name, weights, worst)));
  if (lacking) {
    return `${page.metrics[lacking].title} is here only as an equal mean over domains: choose ` +
      'equal weights without the worst domain, or another rule.';
  }
  return '';
}

function usable(page, rule, setting) {
  const trial = { ...setting, rule };
  return !problemWith(page, trial) && !(rule.kind === 'wald' && setting.rule.kind !== 'wald');
}

function render(page) {
  const began = performance.now();
  page.work += 1; // what was under way for older settings stops
  const setting = readSetting(page);
  adapt(page, setting);
  const number = Number(page.form.elements.namedItem('run')?.value ?? 0);
  const selection = setting.problem ? null : select(page.runs[number], setting);
  const none = selection && selection.index < 0
    ? `No checkpoint reaches ${setting.threshold.text} points: the best ` +
      `${setting.worst ? 'worst-domain' : 'mean'} source accuracy is ` +
      `${fixed(100 * Math.max(...selection.view.accuracy.filter(Number.isFinite)), 2)} points.`
    : '';
  byId('problem').textContent = setting.problem || none;
  byId('problem').hidden = !(setting.problem || none);
  for (const part of document.querySelectorAll('[data-result]')) {
    part.classList.toggle('stale', Boolean(setting.problem || none));
  }
  if (selection && !none) {
    renderRun(page, selection);
    if (page.runs.length > 1) renderCohort(page, setting);
  }
  page.form.dataset.ms = (performance.now() - began).toFixed(1);
}

/** Show the controls that the rule uses. */
function adapt(page, { rule, delta }) {
  const takes = (name) => rule.takes.includes(name);
  byId('tolerance').hidden = !takes('delta_pp');
  byId('least').hidden = !takes('threshold_pp');
  byId('distance').hidden = !takes('q');
  byId('objectives').hidden = rule.kind !== 'constrained';
  byId('summary').textContent = rule.summary.replace('delta_pp', 'δ');
  const box = page.form.elements.namedItem('delta');
  if (delta) box.removeAttribute('aria-invalid');
  else box.setAttribute('aria-invalid', 'true');
}

const usualSetting = (page, setting) => ({ ...setting, rule: page.rules[page.data.start.reference] });

function renderRun(page, selection) {
  const { run, setting, view, index, eligible } = selection;
  const usual = select(run, usualSetting(page, setting));
  byId('choice').textContent = `Step ${run.steps[index]}`;
  byId('explanation').textContent = explain(selection);
  if (byId('weights-path')) {
    const path = page.data.paths?.[index];
    byId('weights-path').textContent = path ?? '';
    byId('weights-path').parentElement.hidden = !path;
  }
  const width = matchMedia('(max-width: 40rem)').matches ? 350 : 860;
  byId('figure').replaceChildren(...runFigure(page, selection, usual, width));
  renderRanking(page, selection);
  renderSureness(page, selection, width);
}

function panelNames(page, { setting, view, run }) {
  const own = setting.rule.kind === 'wald' ? ['ece'] : objectivesOf(setting);
  const fallback = ['nll', 'cwece'].filter((name) => page.metrics[name]);
  const wanted = ['constrained', 'pure', 'wald'].includes(setting.rule.kind) ? own : fallback;
  const held = (name) => name !== 'accuracy' && carries(run, name, view.weights, view.worst);
  return wanted.filter(held).slice(0, PANELS);
}

function runFigure(page, selection, usual, width) {
  const { run, view, setting, eligible } = selection;
  const panels = panelNames(page, selection).map((name) => {
    const metric = page.metrics[name];
    const values = column(view, name).map((v) => metric.scale * v);
    const unit = metric.percent ? ' (%)' : metric.scale === 100 ? ' ×100' : '';
    return { name, metric, values, title: `Source ${metric.title}${unit}` };
  });
  const accuracy = view.accuracy.map((a) => 100 * a);
  const marks = [{ rule: setting.rule.name, index: selection.index }];
  if (usual.setting.rule !== setting.rule) {
    marks.unshift({ rule: usual.setting.rule.name, index: usual.index });
  }
  const colours = panels[0]
    ? panels[0].values.map((v) => (panels[0].metric.higher ? -v : v)) : accuracy.map(() => 0);
  const facts = {
    run, accuracy, eligible, panels, marks,
    worst: view.worst,
    tolerance: setting.rule.takes.includes('delta_pp') ? setting.delta.value : 0,
    levels: levelsOf(colours, eligible),
    hover: (t) => [`step ${run.steps[t]}`, `accuracy ${fixed(accuracy[t], 2)}%`,
      ...panels.map((p) => `${p.metric.title} ${fixed(p.values[t], 4)}`)].join(', '),
  };
  const lost = run.diverged.reduce((sum, one) => sum + one, 0);
  return [legendOf(facts), drawRun(facts, width), h('p', { class: 'note' },
    'Ticks at the edge are checkpoints out of view, early ones mostly.' +
    (lost ? ` ${lost} diverged checkpoint(s) are marked ×.` : ''))];
}

function legendOf({ run, panels, eligible, marks }) {
  const icon = (shape) =>
    s('svg', { viewBox: '0 0 20 20', class: 'icon', 'aria-hidden': 'true' }, shape);
  const items = marks.map((mark, i) => h('li', {}, icon(SHAPES[i](10, 10, 6, `mark rule${i}`)),
    h('b', {}, mark.rule), ` step ${run.steps[mark.index]}`));
  if (panels[0]) {
    const inside = panels[0].values.filter((_, t) => eligible[t]);
    const ends = [Math.min(...inside), Math.max(...inside)];
    if (panels[0].metric.higher) ends.reverse();
    items.push(h('li', {}, `eligible, by ${panels[0].metric.title}: ${fixed(ends[0], 3)} `,
      h('span', { class: 'ramp' }, [0, 1, 2, 3, 4, 5, 6].map((r) => h('i', { class: `swatch r${r}` }))),
      ` ${fixed(ends[1], 3)}`));
  }
  items.push(h('li', {}, icon(s('circle', { cx: 10, cy: 10, r: 3.5, class: 'dot out' })),
    'not eligible'));
  return h('ul', { class: 'legend' }, items);
}

/** The ranked checkpoints: score, every objective, and what it became after rescaling. */
function renderRanking(page, selection) {
  const { run, view, setting, score, eligible, normalised } = selection;
  const names = objectivesOf(setting);
  const others = page.data.metrics.map((m) => m.name).filter((name) =>
    name !== 'accuracy' && carries(run, name, view.weights, view.worst));
  const rows = ranked(selection).map((t, i) => ({ t, rank: i + 1 }));
  const number = (label, value, digits, small) =>
    ({ label, small, value, cell: (r) => (Number.isNaN(value(r)) ? '–' : fixed(value(r), digits)) });
  const metric = (name) => {
    const { title, scale, percent } = page.metrics[name];
    const values = column(view, name);
    const unit = percent ? ' (%)' : scale === 100 ? ' ×100' : '';
    return number(title + unit, (r) => scale * values[r.t], 3);
  };
  const rescaled = (name, i) =>
    number(`${page.metrics[name].title} 0–1`, (r) => (eligible[r.t] ? normalised[i][r.t] : NaN), 4,
      'rescaled');
  const objectives = (name, i) => [metric(name), ...(normalised ? [rescaled(name, i)] : [])];
  const columns = [
    { label: 'rank', value: (r) => r.rank, cell: (r) => String(r.rank) },
    { label: 'step', value: (r) => run.steps[r.t], cell: (r) => String(run.steps[r.t]) },
    number('accuracy (%)', (r) => 100 * view.accuracy[r.t], 2),
    number('gap (points)', (r) => view.gap_pp[r.t], 2),
    number(setting.rule.kind === 'constrained' ? 'distance' : 'score',
      (r) => (eligible[r.t] ? score[r.t] : NaN), 4),
  ];
  const inObjectives = names.filter((name) => name !== 'accuracy');
  const own = inObjectives.flatMap((name) => objectives(name, names.indexOf(name)));
  const rest = others.filter((name) => !names.includes(name)).map(metric);
  const kind = (r) => (r.t === selection.index ? 'chosen' : eligible[r.t] ? null : 'dim');
  const name = `${run.name}-${setting.rule.name}`;
  sortableTable(byId('ranking'), {
    caption: 'Best first; only eligible checkpoints are ranked.', name, kind,
    columns: [...columns, ...own], rows: rows.slice(0, SHOWN_ROWS),
  });
  byId('ranking-all-label').textContent = `All ${rows.length} checkpoints and metrics`;
  if (byId('ranking-all').parentElement.open) {
    sortableTable(byId('ranking-all'), {
      caption: 'Every checkpoint', name: `${name}-all`, kind,
      columns: [...columns, ...own, ...rest], rows,
    });
  }
}

/** How sure: how many could have been chosen, ties, other tolerances, and the bound. */
function renderSureness(page, selection, width) {
  const { run, view, setting, eligible, index } = selection;
  const { ties, near } = tiesOf(selection);
  const size = eligible.filter(Boolean).length;
  const said = [`${size} of ${run.steps.length} checkpoints could have been chosen` +
    (size === 1 ? ': the rule had nothing to decide.' : '.')];
  if (['constrained', 'pure', 'wald'].includes(setting.rule.kind)) {
    const close = ties.length + near.length;
    said.push(close ? `${close} of them score within 1e-9 of the choice: a near-tie.`
      : size > 1 ? 'No other comes within 1e-9 of its score.' : '');
  }
  const drawn = [];
  if (setting.rule.takes.includes('delta_pp')) {
    const limit = Math.min(100, Math.max(2, 2 * setting.delta.value));
    const pieces = sweep(run, setting, limit);
    const now = pieces.filter((p) => p.index === index && p.from <= setting.delta.value + 1e-9)
      .at(-1);
    if (now) {
      const end = now.to >= limit ? 'on' : `to ${fixed(now.to, 2)}`;
      said.push(`The same step is chosen for every tolerance from ${fixed(now.from, 2)} points ${end}.`);
    }
    drawn.push(drawSweep(pieces.map((p) => ({ ...p, step: run.steps[p.index] })),
      setting.delta.value, width));
  }
  const bound = guarantee(selection);
  said.push(bound.none ?? `With probability at least 0.95 its population ` +
    `${view.worst ? 'worst-domain' : 'mean'} source accuracy is at most ` +
    `${fixed(bound.bound_pp, 2)} points below the best of this run, under the conditions below.`);
  byId('sure').replaceChildren(h('ul', {}, said.filter(Boolean).map((text) => h('li', {}, text))),
    ...drawn);
}

function renderCohort(page, setting) {
  const chosen = selectAll(page.runs, setting);
  const usual = selectAll(page.runs, usualSetting(page, setting));
  const open = page.held?.open;
  const place = byId('over-runs');
  if (!chosen) {
    place.textContent = 'In some runs no checkpoint reaches that accuracy, so rules cannot be ' +
      'compared over all of them.';
    return;
  }
  const facts = sourceFacts(chosen, usual);
  const n = page.runs.length;
  place.textContent = `Over all ${n} runs: ${setting.rule.name} differs from ` +
    `${page.data.start.reference} in ${facts.differ}, gives up ${fixed(facts.gap, 2)} points of ` +
    `source accuracy on average, and had a single eligible checkpoint in ${facts.alone}; the ` +
    `median feasible set has ${general(facts.median, 4)}.`;
  if (byId('runs-table').parentElement.open) renderRuns(page, chosen, usual);
  if (open) renderTargets(page, setting, chosen, usual);
  later(page, () => renderRules(page, setting, usual, open));
}

/** Do the slower part when the browser is free, unless the settings have changed by then. */
function later(page, work) {
  const mine = page.work;
  setTimeout(() => mine === page.work && work(), 30);
}

/** Every run: what was chosen, where source accuracy alone would have gone. */
function renderRuns(page, chosen, usual) {
  const rows = chosen.map((c, i) => ({ c, u: usual[i] }));
  const text = (label, of) => ({ label, value: of, cell: (r) => String(of(r)) });
  const number = (label, of, digits) => ({ label, value: of, cell: (r) => fixed(of(r), digits) });
  sortableTable(byId('runs-table'), {
    caption: 'What is chosen in every run; a run’s name opens it above.', name: 'choices', rows,
    columns: [
      text('run', (r) => r.c.run.name),
      text('step', (r) => r.c.run.steps[r.c.index]),
      text(`${page.data.start.reference} step`, (r) => r.u.run.steps[r.u.index]),
      number('accuracy (%)', (r) => 100 * r.c.view.accuracy[r.c.index], 2),
      number('gap (points)', (r) => r.c.view.gap_pp[r.c.index], 2),
      text('eligible', (r) => r.c.eligible.filter(Boolean).length),
    ],
    open: (r) => {
      page.form.elements.namedItem('run').value = String(r.c.run.number);
      render(page);
      byId('explore').scrollIntoView({ block: 'start' });
      page.form.elements.namedItem('run').focus({ preventScroll: true });
    },
  });
}

/** All rules at the current settings, one after the other so that the page stays quick. */
function renderRules(page, setting, usual, open) {
  const mine = page.work;
  const { start: first, held, bootstrap } = page.data;
  const metrics = held ? held.metrics.filter((m) => MAIN_TARGETS.includes(m)) : [];
  const offered = page.data.rules.filter((rule) =>
    rule.name !== first.reference && usable(page, rule, setting) && rule.name !== 'ac');
  if (setting.rule.name === 'ac') offered.push(setting.rule);
  const expected = { ...page.rules['ac-early'], name: 'ac-mean', expected: true };
  const rules = [...offered, ...(open && page.rules['ac-early'] ? [expected] : [])];
  const theirs = Object.fromEntries(metrics.map((m) => [m, targetsOf(usual, m, false)]));
  const rows = [];
  const next = () => {
    if (mine !== page.work) return;
    if (rows.length === rules.length) {
      renderSourceRules(page, setting, rows.filter((row) => !row.rule.expected));
      if (open) renderTargetRules(page, setting, rows, metrics);
      return;
    }
    const rule = rules[rows.length];
    const chosen = selectAll(page.runs, { ...setting, rule });
    const row = { rule, source: chosen && sourceFacts(chosen, usual), contrasts: [] };
    if (open && chosen) {
      row.contrasts = metrics.map((m) =>
        contrast(targetsOf(chosen, m, rule.expected), theirs[m], page.metrics[m]));
      addIntervals(row.contrasts, bootstrap);
    }
    rows.push(row);
    setTimeout(next, 0);
  };
  next();
}

function renderSourceRules(page, setting, rows) {
  const n = page.runs.length;
  const known = rows.filter((row) => row.source);
  const number = (label, of, digits) => ({ label, value: of, cell: (r) => fixed(of(r), digits) });
  const means = ['nll', 'cwece'].filter((name) => page.runs.every((run) =>
    carries(run, name, setting.weights, setting.worst)));
  sortableTable(byId('rules-source'), {
    caption: `All rules at these settings, over ${n} runs; source validation`,
    name: 'rules-source', rows: known,
    kind: (row) => (row.rule.name === setting.rule.name ? 'chosen' : null),
    columns: [
      { label: 'rule', value: (r) => r.rule.name, cell: (r) => r.rule.name },
      number('mean gap (points)', (r) => r.source.gap, 2),
      { label: 'median eligible', value: (r) => r.source.median,
        cell: (r) => general(r.source.median, 4) },
      number(`differs from ${page.data.start.reference}`, (r) => r.source.differ, 0),
      number('only one eligible', (r) => r.source.alone, 0),
      ...means.map((name) => {
        const { title, scale } = page.metrics[name];
        return number(`source ${title}${scale === 100 ? ' ×100' : ''}`,
          (r) => scale * r.source.mean(name), 3);
      }),
    ],
  });
}

/** A column of paired differences: mean, interval and counts; CSV has them one by one. */
function contrastColumn(metric, at) {
  const unit = metric.percent ? ' (points)' : metric.scale === 100 ? ' (×100)' : '';
  const one = (row) => row.contrasts[at];
  return {
    label: `target ${metric.title}${unit}`,
    small: metric.higher ? 'higher is better' : 'lower is better',
    value: (row) => one(row).mean,
    cell: (row) => {
      const found = verdictOf(one(row));
      const { wins, ties, losses, missing } = one(row);
      return [
        found === 'unclear' ? null : h('em', { class: found }, found), ' ',
        h('b', {}, shown(one(row).mean, metric, true)),
        h('span', { class: 'ci' }, shownInterval(one(row))),
        h('small', {}, `${wins} / ${ties} / ${losses}` + (missing ? ` · ${missing} missing` : '')),
      ];
    },
    csv: ['mean', 'low', 'high', 'median', 'wins', 'ties', 'losses', 'n', 'missing'].map((part) =>
      [`target_${metric.name}_${part}`, (row) => one(row)[part]]),
  };
}

function contrastTable(page, place, { label, name, caption, rows, metrics, kind }) {
  const lost = (row) => row.contrasts.find((c) => c.metric.name === 'accuracy')?.lose_1pp ?? NaN;
  sortableTable(place, {
    caption, name, rows, kind,
    columns: [
      { label, value: (r) => r.label,
        cell: (r) => [r.label, h('small', {}, `n = ${r.contrasts[0].n}`)] },
      ...metrics.map((m, at) => contrastColumn(page.metrics[m], at)),
      { label: 'lose ≥ 1 point', value: lost,
        cell: (r) => (Number.isNaN(lost(r)) ? '–' : `${fixed(100 * lost(r), 0)}%`) },
    ],
  });
}

function renderTargetRules(page, setting, rows, metrics) {
  contrastTable(page, byId('rules-target'), {
    label: 'rule', name: 'rules-heldout', metrics,
    caption: `All rules at these settings − ${page.data.start.reference}, paired by run; small ` +
      'figures: runs better / equal / worse',
    rows: rows.filter((row) => row.contrasts.length).map((row) =>
      ({ label: row.rule.name, contrasts: row.contrasts })),
    kind: (row) => (row.label === setting.rule.name ? 'chosen' : null),
  });
}

/** The current rule on the held-out domains: in words, split, and run by run. */
function renderTargets(page, setting, chosen, usual) {
  const { bootstrap, held, start: first } = page.data;
  const metrics = held.metrics.filter((m) => MAIN_TARGETS.includes(m));
  const of = (at) => metrics.map((m) => contrast(
    targetsOf(at.map((i) => chosen[i]), m, false), targetsOf(at.map((i) => usual[i]), m, false),
    page.metrics[m]));
  const every = of(page.runs.map((_, i) => i));
  addIntervals(every, bootstrap);
  const pick = (name) => every.find((c) => c.metric.name === name);
  const [nll, accuracy] = [pick('nll'), pick('accuracy')];
  byId('live-answer').textContent = setting.rule.name === first.reference
    ? `${first.reference} is what the others are compared with.`
    : `Against ${first.reference}, ${settingText(setting)} ${effect(nll)} on ` +
      `${nll.n === 1 ? '1 run' : `${nll.n} runs`}; it ${effect(accuracy)}.`;
  const asReported = isStart(page, setting);
  byId('live-note').textContent = asReported
    ? 'These are the settings that the report was written with.'
    : 'These are not the settings that the report was written with: this is exploration, and the ' +
      'best of many settings looks better than it is.';
  byId('live-note').classList.toggle('caution', !asReported);
  const by = byId('split').value;
  const groups = new Map();
  page.runs.forEach((run, i) => {
    const label = String(run.key[by]);
    groups.set(label, [...(groups.get(label) ?? []), i]);
  });
  const rows = [...groups.keys()].sort()
    .map((label) => ({ label, contrasts: of(groups.get(label)) }));
  const few = Math.min(...rows.map((row) => row.contrasts[0].n)) < FEW;
  const table = () => contrastTable(page, byId('split-table'), {
    label: byId('split').selectedOptions[0].textContent, name: `by-${by}`, rows, metrics,
    caption: `${settingText(setting)} − ${first.reference}, paired by run` +
      (few ? `. Intervals from fewer than ${FEW} runs are too narrow: hints, not results` : ''),
  });
  table();
  later(page, () => {
    for (const row of rows) addIntervals(row.contrasts, bootstrap);
    table();
  });
  if (byId('differences').parentElement.open) renderDifferences(page, every, metrics);
}

function renderDifferences(page, every, metrics) {
  const rows = page.runs.map((run, i) => ({
    run, of: every.map((c) => (c.kept.includes(i) ? c.values[c.kept.indexOf(i)] : NaN)),
  }));
  sortableTable(byId('differences'), {
    caption: 'Difference in every run', name: 'differences', rows,
    columns: [
      { label: 'run', value: (r) => r.run.name, cell: (r) => r.run.name },
      ...metrics.map((m, at) => ({
        label: `Δ target ${page.metrics[m].title}`, value: (r) => r.of[at],
        cell: (r) => shown(r.of[at], page.metrics[m], true),
      })),
    ],
  });
}

function isStart(page, s) {
  const first = page.data.start;
  const relevant = (name, same) => !s.rule.takes.includes(name) || same;
  return first.reported && s.rule.name === first.rule && s.weights === first.weights && s.worst === first.worst &&
    relevant('delta_pp', s.delta.value === decimal(first.delta).value) &&
    relevant('q', String(s.q).replace('Infinity', 'inf') === first.q) &&
    relevant('threshold_pp', s.threshold?.value === decimal(first.threshold)?.value) &&
    relevant('objectives', s.objectives.join() === first.objectives.join());
}

/** The rule with the settings that matter to it: ac-nc (δ 0.5, L∞). */
function settingText({ rule, delta, threshold, q, objectives, weights, worst }) {
  const parts = [
    rule.takes.includes('delta_pp') ? `δ ${delta.text}` : '',
    rule.takes.includes('threshold_pp') ? `at least ${threshold.text}` : '',
    rule.takes.includes('q') ? `L${q === Infinity ? '∞' : q}` : '',
    rule.takes.includes('objectives') ? objectives.join(' + ') : '',
    weights === 'sample' ? 'weights by sample' : '',
    worst ? 'worst domain' : '',
  ].filter(Boolean);
  return rule.name + (parts.length ? ` (${parts.join(', ')})` : '');
}

start();
