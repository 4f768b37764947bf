// All runs at the current settings: source side always, held-out side once it is open.

const MAIN_TARGETS = ['accuracy', 'nll', 'ece', 'cwece'];

function renderCohort(page, setting) {
  const chosen = selectAll(page.runs, setting);
  const usual = usualOver(page, setting);
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
    `${page.data.start.reference} in ${facts.differ}, gives up ${shown(facts.gap, POINTS)} points of ` +
    `source accuracy on average, and had a single eligible checkpoint in ${facts.alone}; the ` +
    `median run has ${general(facts.median, 4)}.`;
  if (byId('runs-table').parentElement.open) renderRuns(page, chosen, usual);
  if (open) renderTargets(page, setting, chosen, usual);
  later(page, () => renderRules(page, setting, usual, open));
}

/** The reference in every run; kept where the tolerance and its like do not change it. */
function usualOver(page, setting) {
  const reference = usualSetting(page, setting);
  if (reference.rule.takes.length) return selectAll(page.runs, reference);
  const name = `${setting.weights}|${setting.worst}`;
  page.usual ??= {};
  page.usual[name] ??= selectAll(page.runs, reference);
  return page.usual[name];
}

/** Every run: what was chosen, where source accuracy alone would have gone. */
function renderRuns(page, chosen, usual) {
  const rows = chosen.map((c, i) => ({ c, u: usual[i] }));
  const text = (label, of) => ({ label, value: of, cell: (r) => String(of(r)) });
  const number = (label, of) => ({ label, value: of, cell: (r) => shown(of(r), POINTS) });
  sortableTable(byId('runs-table'), {
    caption: 'What is chosen in every run; a run’s name opens it above.', name: 'choices', rows,
    columns: [
      text('run', (r) => r.c.run.name),
      text('step', (r) => r.c.run.steps[r.c.index]),
      text(`${page.data.start.reference} step`, (r) => r.u.run.steps[r.u.index]),
      number('accuracy (%)', (r) => 100 * r.c.view.accuracy[r.c.index]),
      number('gap (points)', (r) => r.c.view.gap_pp[r.c.index]),
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
  const { start: first, held, quantiles } = page.data;
  const metrics = held ? held.metrics.filter((m) => MAIN_TARGETS.includes(m)) : [];
  const offered = page.data.rules.filter((rule) =>
    rule.name !== first.reference && usable(page, rule, setting) && rule.name !== 'ac');
  if (setting.rule.name === 'ac') offered.push(setting.rule);
  const expected = { ...page.rules['ac-early'], name: 'ac-mean', expected: true };
  const rules = [...offered, ...(open && page.rules['ac-early'] ? [expected] : [])];
  const keys = page.runs.map((run) => run.key);
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
        contrast(targetsOf(chosen, m, rule.expected), theirs[m], page.metrics[m], keys, quantiles));
    }
    rows.push(row);
    setTimeout(next, 0);
  };
  next();
}

const labelOf = (rule) => rule.name + (rule.kind === 'reported' ? ' (as reported)' : '');

function renderSourceRules(page, setting, rows) {
  const n = page.runs.length;
  const known = rows.filter((row) => row.source);
  const number = (label, of, kind) => ({ label, value: of, cell: (r) => shown(of(r), kind) });
  const count = (label, of) => ({ label, value: of, cell: (r) => String(of(r)) });
  const means = ['nll', 'cwece'].filter((name) => page.runs.every((run) =>
    carries(run, name, setting.weights, setting.worst)));
  sortableTable(byId('rules-source'), {
    caption: `All rules at these settings, over ${n} runs; source validation`,
    name: 'rules-source', rows: known,
    kind: (row) => (row.rule.name === setting.rule.name ? 'chosen' : null),
    columns: [
      { label: 'rule', value: (r) => r.rule.name, cell: (r) => labelOf(r.rule) },
      number('mean gap (points)', (r) => r.source.gap, POINTS),
      { label: 'median eligible', value: (r) => r.source.median,
        cell: (r) => general(r.source.median, 4) },
      count(`differs from ${page.data.start.reference}`, (r) => r.source.differ),
      count('only one eligible', (r) => r.source.alone),
      ...means.map((name) => {
        const metric = page.metrics[name];
        return number(`source ${metric.title}${metric.scale === 100 ? ' ×100' : ''}`,
          (r) => metric.scale * r.source.mean(name), metric);
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
      const found = verdictOf(one(row)).direction;
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

/** n = 36 · 9 blocks × 4 domains, or · 24 places: what the interval counts. */
function sizesOf(one) {
  return `n = ${one.n}` + (one.n > 1 ? ` · ${countedGroups(one)}` : '');
}

function contrastTable(page, place, { label, name, caption, rows, metrics, kind }) {
  const lost = (row) => row.contrasts.find((c) => c.metric.name === 'accuracy')?.lose_1pp ?? NaN;
  sortableTable(place, {
    caption, name, rows, kind,
    columns: [
      { label, value: (r) => r.label,
        cell: (r) => [r.label, h('small', {}, sizesOf(r.contrasts[0]))] },
      ...metrics.map((m, at) => contrastColumn(page.metrics[m], at)),
      { label: 'lose ≥ 1 point', value: lost,
        cell: (r) => (Number.isNaN(lost(r)) ? '–' : `${fixed(100 * lost(r), 0)}%`) },
    ],
  });
}

function renderTargetRules(page, setting, rows, metrics) {
  contrastTable(page, byId('rules-target'), {
    label: 'rule', name: 'rules-heldout', metrics,
    caption: `All rules at these settings − ${page.data.start.reference}, paired by run, with 95% ` +
      'intervals over the groups named; small figures: runs better / equal / worse',
    rows: rows.filter((row) => row.contrasts.length).map((row) =>
      ({ rule: row.rule, label: labelOf(row.rule), contrasts: row.contrasts })),
    kind: (row) => (row.rule.name === setting.rule.name ? 'chosen' : null),
  });
}

/** The current rule on the held-out domains: in words, split, and run by run. */
function renderTargets(page, setting, chosen, usual) {
  const { held, start: first, quantiles } = page.data;
  const metrics = held.metrics.filter((m) => MAIN_TARGETS.includes(m));
  const of = (at) => metrics.map((m) => contrast(
    targetsOf(at.map((i) => chosen[i]), m, false), targetsOf(at.map((i) => usual[i]), m, false),
    page.metrics[m], at.map((i) => page.runs[i].key), quantiles));
  const every = of(page.runs.map((_, i) => i));
  const pick = (name) => every.find((c) => c.metric.name === name);
  const [leading, ...others] = [pick('nll'), pick('accuracy')].filter(Boolean);
  byId('live-answer').textContent = setting.rule.name === first.reference
    ? `${first.reference} is what the others are compared with.`
    : `Against ${first.reference}, ${settingText(setting)} ${effect(leading)} ` +
      overOf(leading) +
      `${Number.isNaN(leading.low) ? `, ${shownInterval(leading)}` : cautionOf(leading)}` +
      `${others.map((c) => `; it ${effect(c)}${alsoOver(c, leading)}${cautionOf(c)}`).join('')}.`;
  const asReported = isStart(page, setting);
  byId('live-note').textContent = asReported
    ? 'These are the settings that the report was written with.'
    : 'These are not the settings that the report was written with: this is exploration, and the ' +
      'best of many settings looks better than it is.';
  byId('live-note').classList.toggle('caution', !asReported);
  byId('live-intervals').textContent = aboutIntervals(leading);
  const by = byId('split').value;
  const groups = new Map();
  page.runs.forEach((run, i) => {
    const label = String(run.key[by]);
    groups.set(label, [...(groups.get(label) ?? []), i]);
  });
  const rows = [...groups.keys()].sort()
    .map((label) => ({ label, contrasts: of(groups.get(label)) }));
  contrastTable(page, byId('split-table'), {
    label: byId('split').selectedOptions[0].textContent, name: `by-${by}`, rows, metrics,
    caption: `${settingText(setting)} − ${first.reference}, paired by run, with 95% intervals ` +
      'over the blocks or places named',
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
