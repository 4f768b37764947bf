// Cluster-t intervals of a mean over runs that share seeds, splits or held-out domains, and what they
// allow a difference to be called: the closed form and the criterion of checkwise.study.

const FALLBACK = 'block'; // the unit of the interval where no other leads
const ENOUGH_GROUPS = 3; // an interval over fewer decides nothing
const MANY_PLACES = 6; // from here on held-out domains are called places
const SEED_UNITS = ['block', 'draw', 'trial'];
const DOMAIN_UNITS = ['domain', 'block_domain'];
const OF_DOMAINS = ['place', 'domain']; // what an interval over held-out domains counts
const GROUPS = {
  run: 'runs', block: 'blocks', draw: 'draws', trial: 'splits', domain: 'domains',
  block_domain: 'blocks × domains',
};
const labelled = new WeakMap();

/** The cluster of a run by each unit; kept, for every table asks again. */
function clustersOf(key) {
  if (!labelled.has(key)) {
    const block = `${key.hparams_seed} ${key.trial_seed}`;
    const domain = JSON.stringify([key.dataset, key.held_out]);
    labelled.set(key, {
      run: key, // every run by itself
      block,
      draw: key.hparams_seed === 0 ? '0' : block,
      trial: key.trial_seed,
      domain,
      shared: `${block} ${domain}`,
    });
  }
  return labelled.get(key);
}

/** G/(G−1) Σ_g (Σ_{i in g} residual_i)² / n², with the number of clusters G. */
function clusterVariance(residuals, labels, unit) {
  const sums = new Map();
  residuals.forEach((residual, i) => {
    const label = labels[i][unit];
    sums.set(label, (sums.get(label) ?? 0) + residual);
  });
  const groups = sums.size;
  if (groups < 2) return { groups, variance: NaN };
  let squares = 0;
  for (const sum of sums.values()) squares += sum * sum;
  return { groups, variance: (groups / (groups - 1)) * squares / residuals.length ** 2 };
}

/** The interval of the mean by each unit; `quantiles[G − 2]` is Student's with G − 1 degrees. */
function unitIntervals(values, keys, quantiles) {
  const mean = fsum(values) / values.length;
  // Differences that are all alike leave rounding, not spread.
  const alike = values.every((value) => value === values[0]);
  const residuals = values.map((value) => (alike ? 0 : value - mean));
  const labels = keys.map(clustersOf);
  const { shared, ...by } = Object.fromEntries(
    ['run', ...SEED_UNITS, 'domain', 'shared'].map((unit) =>
      [unit, clusterVariance(residuals, labels, unit)]));
  const { block, domain } = by;
  by.block_domain = {
    groups: Math.min(block.groups, domain.groups),
    variance: Math.max(
      block.variance + domain.variance - shared.variance, block.variance, domain.variance),
  };
  return Object.fromEntries(Object.entries(by).map(([unit, { groups, variance }]) => {
    const half = (quantiles[groups - 2] ?? NaN) * Math.sqrt(variance);
    return [unit, { groups, low: mean - half, high: mean + half }];
  }));
}

/** The mean over held-out places, each counting once, and Student's interval over these means. */
function placeInterval(values, keys, quantiles) {
  const by = new Map();
  values.forEach((value, i) => {
    const { domain } = clustersOf(keys[i]);
    by.set(domain, [...(by.get(domain) ?? []), value]);
  });
  const means = [...by.values()].map((of) => fsum(of) / of.length);
  const groups = means.length;
  const mean = fsum(means) / groups;
  const squares = fsum(means.map((one) => (one - mean) ** 2));
  const half = (quantiles[groups - 2] ?? NaN) * Math.sqrt(squares / (groups - 1) / groups);
  return { groups, mean, low: mean - half, high: mean + half };
}

/** Blocks × domains where domains share seeds; else held-out domains, each counting once; or blocks. */
function leadingInterval(values, keys, units, quantiles) {
  const crossed = isCrossed(keys);
  const [blocks, domains] = [units.block?.groups ?? 0, units.domain?.groups ?? 0];
  const overRuns = { groups: 0, low: NaN, high: NaN, mean: fsum(values) / values.length };
  if (domains < ENOUGH_GROUPS) return { ...overRuns, ...units[FALLBACK], over: FALLBACK, crossed };
  if (crossed && blocks >= ENOUGH_GROUPS) {
    return { ...overRuns, ...units.block_domain, over: 'block_domain', crossed };
  }
  const over = domains >= MANY_PLACES ? 'place' : 'domain';
  return { ...placeInterval(values, keys, quantiles), over, crossed };
}

/** Whether runs of several held-out domains share seeds: some block lies in two of them. */
function isCrossed(keys) {
  const labels = keys.map(clustersOf);
  const count = (unit) => new Set(labels.map((label) => label[unit])).size;
  return count('shared') > count('block');
}

const includesZero = ({ low, high }) => !(low > 0 || high < 0);

/** Units with enough groups; blocks × domains only where domains share seeds. */
function decidingUnits(units, crossed) {
  return Object.keys(units).filter((unit) =>
    units[unit].groups >= ENOUGH_GROUPS && (crossed || unit !== 'block_domain'));
}

/** Better, worse or unclear; how far that reaches; which units do not bear it out. */
function verdictOf({ units, mean, low, high, over, crossed, metric }) {
  const deciding = decidingUnits(units, crossed);
  const bearsOut = (interval) => (mean > 0 ? interval.low > 0 : interval.high < 0);
  const against = deciding.filter((unit) => !(bearsOut(units[unit]) &&
    (unit !== 'domain' || !OF_DOMAINS.includes(over) || bearsOut({ low, high }))));
  const unclear = !deciding.includes(FALLBACK) || against.length > 0;
  const everywhere = deciding.includes('domain') &&
    !DOMAIN_UNITS.some((unit) => against.includes(unit));
  return {
    direction: unclear ? 'unclear' : mean > 0 === metric.higher ? 'better' : 'worse',
    reach: everywhere ? 'new domains' : 'these domains',
    against,
  };
}

/** What narrows a difference, as the end of its clause; empty where nothing does. */
function cautionOf(one) {
  if (Number.isNaN(one.low)) return '';
  const { direction, reach, against } = verdictOf(one);
  const { groups } = one.units[FALLBACK];
  if (groups < ENOUGH_GROUPS) {
    return OF_DOMAINS.includes(one.over)
      ? `, from ${counted(groups, 'block')} of seeds: too few to tell`
      : `, an interval from ${groups} blocks, which are too few to tell`;
  }
  if (includesZero(one)) return ', an interval that includes zero';
  if (direction === 'unclear') {
    const implied = against.includes('block') || against.includes('domain');
    const names = against.filter((unit) => !(implied && unit === 'block_domain'))
      .map((unit) => GROUPS[unit]);
    return `, which ${listed(names)} do not bear out`;
  }
  if (reach !== 'these domains') return '';
  const domains = one.units.domain.groups === 1 ? 'this domain' : 'these domains';
  return ` (shown for ${domains}, not for new ones)`;
}

/** What the interval counts, as a clause; without an interval, the runs. */
function overOf(one) {
  if (Number.isNaN(one.low)) return `on ${counted(one.n, 'run')}`;
  return `over ${countedGroups(one)}`;
}

/** What the interval of a further metric counts, where that is not what the first one's does. */
function alsoOver(one, first) {
  return Number.isNaN(one.low) || overOf(one) === overOf(first) ? '' : ` ${overOf(one)}`;
}

/** 9 blocks, 24 places, or 9 blocks × 4 domains. */
function countedGroups({ over, groups, units }) {
  if (over !== 'block_domain') return counted(groups, over);
  const domains = units.domain.groups;
  const place = domains >= MANY_PLACES ? 'place' : 'domain';
  return `${counted(units.block.groups, 'block')} × ${counted(domains, place)}`;
}

/** Which intervals the page computes here, and over how many clusters; or why there are none. */
function aboutIntervals(one) {
  const { over, groups, n } = one;
  if (n < 2) return 'One run gives no interval.';
  if (OF_DOMAINS.includes(over)) {
    return `Intervals here are 95% t intervals over ${groups} held-out ${over}s, each counting ` +
      'once, however many runs it has.';
  }
  if (over === 'block_domain') {
    return `Intervals here are 95% cluster-t intervals over ${countedGroups(one)}; the runs of a ` +
      'block share both seeds.';
  }
  if (groups < 2) return 'All runs share both seeds and form one block, which gives no interval.';
  const resampled = groups === n || groups < ENOUGH_GROUPS;
  return `Intervals here are 95% cluster-t intervals over ${groups} blocks; the runs of a block ` +
    'share both seeds.' +
    (resampled ? ' The answer at the top resamples single runs, so its intervals differ.' : '') +
    (groups < ENOUGH_GROUPS ? ` Nothing is called better or worse from ${groups} blocks.` : '');
}
