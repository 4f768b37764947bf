// One run at the current settings: the choice that Python made, its picture, and the best rows.

const SHOWN_ROWS = 10;
const PANELS = 3;
const SAME = 1e-9; // what rounding makes of a distance in points

/** The settings of the controls; a setting that has no effect on the rule is empty. */
function settingOf(page) {
  const field = (name) => page.form.elements.namedItem(name)?.value ?? '';
  const run = page.data.runs[Number(field('run') || page.data.start.run)];
  const rule = page.rules[field('rule')];
  const weighting = field('weighting') || page.data.start.weighting;
  const q = [field('q'), ''].find((one) => keyOf(rule, one, weighting) in run.choices);
  return { run, rule, q, weighting, stop: Number(field('slider')) };
}

const keyOf = (rule, q, weighting) => `${rule.name}|${q}|${weighting}`;

/** What a rule chose in a run at these settings: {index, best, near, words, from, to}. */
function chosenIn(page, { run, rule, q = '', weighting, stop }) {
  const pieces = run.choices[keyOf(rule, q, weighting)];
  const at = pieces.findLastIndex(([start]) => start <= stop);
  const [, best, listed, words] = pieces[at];
  const same = (piece) => piece[1][0] === best[0];
  const first = pieces.findLastIndex((piece, i) => i < at && !same(piece)) + 1;
  const after = pieces.find((piece, i) => i > at && !same(piece));
  const view = run.views[weighting];
  const delta = Number(page.data.stops[stop]);
  const near = run.steps.map((_, t) => (listed ? listed.includes(t)
    : view.gap[t] !== null && view.gap[t] <= delta + SAME));
  return {
    index: best[0], best, near, words, view,
    from: page.data.stops[pieces[first][0]], to: after ? page.data.stops[after[0]] : null,
  };
}

/** The rule that others are compared with, at the same settings. */
function usualAt(page, setting) {
  const rule = page.rules[page.data.start.reference];
  return { ...setting, rule, q: '' };
}

function renderRun(page, setting) {
  const { run, rule } = setting;
  const chosen = chosenIn(page, setting);
  const usual = chosenIn(page, usualAt(page, setting));
  byId('choice').textContent = `Step ${run.steps[chosen.index]}`;
  byId('explanation').textContent = explained(page, setting, chosen);
  const path = run.paths?.[chosen.index];
  byId('live-path').textContent = path ?? '';
  byId('live-path').parentElement.hidden = !path;
  byId('steady').textContent = steadyFor(setting, chosen);
  const width = matchMedia('(max-width: 40rem)').matches ? 350 : 860;
  const facts = figureFacts(page, setting, chosen, usual);
  byId('figure').replaceChildren(legendOf(facts), drawRun(facts, width), ...notesOf(facts));
  renderRanking(page, setting, chosen, rule);
}

function explained(page, { run, stop }, { words, index, near, view }) {
  const delta = inPoints(page.data.stops[stop]);
  if (words) return words.replaceAll('{points}', delta);
  return `${shown(view.gap[index], 2)} points below the best; ${near.filter(Boolean).length} of ` +
    `${counted(run.steps.length, 'checkpoint')} could have been chosen.`;
}

function steadyFor({ rule, run }, { from, to, index }) {
  if (!rule.tolerance) return '';
  const end = to === null ? 'on' : `to just below ${to}`;
  return `The same for every tolerance from ${inPoints(from)} ${end}: step ${run.steps[index]}.`;
}

function figureFacts(page, setting, chosen, usual) {
  const { run, rule, stop } = setting;
  const { view } = chosen;
  const wanted = rule.objectives.filter((name) => name !== 'accuracy' && view[name]);
  const names = wanted.length ? wanted : ['nll', 'cwece'].filter((name) => view[name]);
  const panels = names.slice(0, PANELS).map((name) => {
    const metric = page.metrics[name];
    return { metric, values: view[name], title: capital(metric.title) + metric.unit };
  });
  const marks = [{ rule: rule.name, index: chosen.index }];
  if (rule.name !== page.data.start.reference) {
    marks.unshift({ rule: page.data.start.reference, index: usual.index });
  }
  return {
    run, panels, marks, near: chosen.near, accuracy: view.accuracy,
    title: `${run.several ? { worst: 'Worst', sample: 'Weighted mean' }[setting.weighting] ?? 'Mean' : 'Validation'}` +
      `${run.several ? ' validation' : ''} accuracy (%)`,
    tolerance: rule.tolerance ? Number(page.data.stops[stop]) : 0,
    levels: panels[0] ? levelsOf(panels[0], chosen.near) : run.steps.map(() => 0),
    hover: (t) => [`step ${run.steps[t]}`, `accuracy ${shown(view.accuracy[t], 2)}%`,
      ...panels.map((p) => `${p.metric.title} ${shown(p.values[t], p.metric.decimals)}`)].join(', '),
  };
}

function notesOf({ run }) {
  const lost = run.lost.length;
  if (!lost) return [];
  return [h('p', { class: 'note' },
    `${counted(lost, 'diverged checkpoint')} ${lost === 1 ? 'is' : 'are'} marked ×.`)];
}

function legendOf({ run, panels, near, marks }) {
  const icon = (shape) =>
    s('svg', { viewBox: '0 0 20 20', class: 'icon', 'aria-hidden': 'true' }, shape);
  const items = marks.map((mark, i) => h('li', {}, icon(SHAPES[i](10, 10, 6, `mark rule${i}`)),
    h('b', {}, mark.rule), ` step ${run.steps[mark.index]}`));
  if (panels[0]) {
    const { metric, values } = panels[0];
    const inside = values.filter((v, t) => near[t] && v !== null);
    const ends = [Math.min(...inside), Math.max(...inside)];
    if (metric.higher) ends.reverse();
    items.push(h('li', {}, `near the best, by ${metric.title}: ${shown(ends[0], metric.decimals)} `,
      h('span', { class: 'ramp' }, [0, 1, 2, 3, 4, 5, 6].map((r) => h('i', { class: `swatch r${r}` }))),
      ` ${shown(ends[1], metric.decimals)}`));
  }
  items.push(h('li', {}, icon(s('circle', { cx: 10, cy: 10, r: 3.5, class: 'dot out' })), 'not near'));
  return h('ul', { class: 'legend' }, items);
}

/** The best checkpoints in the order of the rule; on request all of them, by step. */
function renderRanking(page, { run, rule }, { best, near, view, index }) {
  const number = (label, values, decimals) =>
    ({ label, value: (r) => values[r.t] ?? NaN, cell: (r) => shown(values[r.t], decimals) });
  const metrics = page.data.metrics.filter(({ name }) => name !== 'accuracy' && view[name]);
  const columns = [
    { label: 'step', value: (r) => run.steps[r.t], cell: (r) => String(run.steps[r.t]) },
    number('accuracy (%)', view.accuracy, 2),
    number('below the best (points)', view.gap, 2),
    ...metrics.map((m) => number(m.title + m.unit, view[m.name], m.decimals)),
  ];
  const kind = (r) => (r.t === index ? 'chosen' : near[r.t] ? null : 'dim');
  const name = `${run.name}-${rule.name}`;
  sortableTable(byId('ranking'), {
    caption: 'Best first', name, kind, columns, rows: best.slice(0, SHOWN_ROWS).map((t) => ({ t })),
  });
  byId('ranking-all-label').textContent = `All ${counted(run.steps.length, 'checkpoint')}`;
  if (byId('ranking-all').parentElement.open) {
    sortableTable(byId('ranking-all'), {
      caption: 'Every checkpoint', name: `${name}-all`, kind, columns,
      rows: run.steps.map((_, t) => ({ t })),
    });
  }
}
