"""Domain data sets: image folders, feature files, embedded digits; splits, sampling, caches."""

from checkwise.data.augment import augment
from checkwise.data.cache import cache_dir
from checkwise.data.class_subsets import with_classes
from checkwise.data.dataset import DomainDataset, Place, from_arrays
from checkwise.data.duplicates import Duplicates, RemovedRow
from checkwise.data.feature_cache import frozen_features
from checkwise.data.features import open_features
from checkwise.data.group_splits import split_both, split_groups
from checkwise.data.images import open_image_folder
from checkwise.data.places import with_places
from checkwise.data.registry import (
    DATASETS,
    EMBEDDED,
    dataset_names,
    domain_names,
    list_images,
    open_dataset,
)
from checkwise.data.sampler import MinibatchSampler
from checkwise.data.seeds import seed_hash
from checkwise.data.splits import split

__all__ = [
    "DATASETS",
    "EMBEDDED",
    "DomainDataset",
    "Duplicates",
    "MinibatchSampler",
    "Place",
    "RemovedRow",
    "augment",
    "cache_dir",
    "dataset_names",
    "domain_names",
    "from_arrays",
    "frozen_features",
    "list_images",
    "open_dataset",
    "open_features",
    "open_image_folder",
    "seed_hash",
    "split",
    "split_both",
    "split_groups",
    "with_classes",
    "with_places",
]
