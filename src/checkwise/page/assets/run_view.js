// One run at the current settings: the choice, its picture, the ranking, and how sure it is.

const SHOWN_ROWS = 10;
const PANELS = 3;

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
  byId('figure').replaceChildren(...runFigure(figureFacts(page.metrics, selection, usual), width));
  renderRanking(page, selection);
  renderSureness(page, selection, width);
}

function panelNames(metrics, { setting, view, run }) {
  const own = setting.rule.kind === 'wald' ? ['ece'] : objectivesOf(setting);
  const usual = ['nll', 'cwece'].filter((name) => metrics[name]);
  const wanted = ['source', 'early', 'random'].includes(setting.rule.kind) || !own.length ? usual : own;
  const held = (name) => name !== 'accuracy' && carries(run, name, view.weights, view.worst);
  return wanted.filter(held).slice(0, PANELS);
}

/** The numbers of the picture, on the reported scale: plot.js draws them and computes no other. */
function figureFacts(metrics, selection, usual) {
  const { run, view, setting, eligible } = selection;
  const panels = panelNames(metrics, selection).map((name) => {
    const metric = metrics[name];
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
  return {
    run, accuracy, eligible, panels, marks,
    worst: view.worst,
    tolerance: setting.rule.takes.includes('delta_pp') ? setting.delta.value
      : setting.rule.tolerance ?? 0,
    levels: levelsOf(colours, eligible),
    hover: (t) => [`step ${run.steps[t]}`, `accuracy ${shown(accuracy[t], POINTS)}%`,
      ...panels.map((p) => `${p.metric.title} ${shown(p.values[t], p.metric)}`)].join(', '),
  };
}

function runFigure(facts, width) {
  const lost = facts.run.diverged.reduce((sum, one) => sum + one, 0);
  return [legendOf(facts), drawRun(facts, width), h('p', { class: 'note' },
    'Ticks at the edge are checkpoints out of view, early ones mostly.' +
    (lost ? ` ${counted(lost, 'diverged checkpoint')} ${lost === 1 ? 'is' : 'are'} marked ×.` : ''))];
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
    items.push(h('li', {}, `eligible, by ${panels[0].metric.title}: ${shown(ends[0], panels[0].metric)} `,
      h('span', { class: 'ramp' }, [0, 1, 2, 3, 4, 5, 6].map((r) => h('i', { class: `swatch r${r}` }))),
      ` ${shown(ends[1], panels[0].metric)}`));
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
  const number = (label, value, kind, small) =>
    ({ label, small, value, cell: (r) => shown(value(r), kind) });
  const metric = (name) => {
    const metric = page.metrics[name];
    const { title, scale, percent } = metric;
    const values = column(view, name);
    const unit = percent ? ' (%)' : scale === 100 ? ' ×100' : '';
    return number(title + unit, (r) => scale * values[r.t], metric);
  };
  const rescaled = (name, i) =>
    number(`${page.metrics[name].title} 0–1`, (r) => (eligible[r.t] ? normalised[i][r.t] : NaN), SCORE,
      'rescaled');
  const objectives = (name, i) => [metric(name), ...(normalised ? [rescaled(name, i)] : [])];
  const columns = [
    { label: 'rank', value: (r) => r.rank, cell: (r) => String(r.rank) },
    { label: 'step', value: (r) => run.steps[r.t], cell: (r) => String(run.steps[r.t]) },
    number('accuracy (%)', (r) => 100 * view.accuracy[r.t], POINTS),
    number('gap (points)', (r) => view.gap_pp[r.t], POINTS),
    ...(setting.rule.kind === 'reported' ? [] : [
      number(setting.rule.kind === 'constrained' ? 'distance' : 'score',
        (r) => (eligible[r.t] ? score[r.t] : NaN), SCORE)]),
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
    said.push(close ? `${close} of them cannot be told from the choice by score: a near-tie.`
      : size > 1 ? 'No other has the same score within rounding.' : '');
  }
  const drawn = [];
  if (setting.rule.takes.includes('delta_pp')) {
    const limit = Math.min(100, Math.max(2, 2 * setting.delta.value));
    const pieces = sweep(run, setting, limit);
    const now = pieces.filter((p) => p.index === index && p.from <= setting.delta.value + 1e-9)
      .at(-1);
    if (now) {
      const end = now.to >= limit ? 'on' : `to ${shown(now.to, POINTS)}`;
      said.push('The same step is chosen for every tolerance from ' +
        `${shown(now.from, POINTS)} points ${end}.`);
    }
    drawn.push(drawSweep(pieces.map((p) => ({ ...p, step: run.steps[p.index] })),
      setting.delta.value, width));
  }
  const bound = guarantee(selection);
  said.push(bound.none ?? `With probability at least 0.95 its population ` +
    `${view.worst ? 'worst-domain' : 'mean'} source accuracy is at most ` +
    `${shown(bound.bound_pp, POINTS)} points below the best of this run, under the conditions below.`);
  byId('sure').replaceChildren(h('ul', {}, said.filter(Boolean).map((text) => h('li', {}, text))),
    ...drawn);
}
