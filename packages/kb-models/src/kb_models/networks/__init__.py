"""Networks in files: tables of layers, ONNX models, and the kinds of other files."""

from kb_models.networks.file_kind import network_file as network_file
from kb_models.networks.onnx import read_onnx as read_onnx
from kb_models.networks.onnx_network import OnnxParams as OnnxParams
from kb_models.networks.onnx_network import OnnxWorkload as OnnxWorkload
from kb_models.networks.scale_sim import Convolution as Convolution
from kb_models.networks.scale_sim import Layer as Layer
from kb_models.networks.scale_sim import Product as Product
from kb_models.networks.scale_sim import read_table as read_table
from kb_models.networks.table import TableParams as TableParams
from kb_models.networks.table import TableWorkload as TableWorkload
