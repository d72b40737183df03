"""Datasets by name: files under data/, made or downloaded on first use."""

from .catalog import canonical_name as canonical_name
from .catalog import dataset_files as dataset_files
from .catalog import dataset_names as dataset_names
from .catalog import dataset_path as dataset_path
from .catalog import described as described
from .catalog import description_path as description_path
from .catalog import get_dataset as get_dataset
from .catalog import is_downloaded as is_downloaded
from .catalog import is_present as is_present
from .catalog import make_dataset as make_dataset
from .catalog import make_sample as make_sample
from .catalog import make_truth_file as make_truth_file
from .catalog import present_names as present_names
from .catalog import stored_truth as stored_truth
from .catalog import truth_file as truth_file
from .dataset import DATA_FOLDER as DATA_FOLDER
from .dataset import Dataset as Dataset
from .file import HDF5Dataset as HDF5Dataset
from .filtering import check_filters as check_filters
from .filtering import prepare_filters as prepare_filters
from .queries import Queries as Queries
from .registry import aliases as aliases
from .registry import registered as registered
from .samples import sample_name as sample_name
from .samples import sampled as sampled
