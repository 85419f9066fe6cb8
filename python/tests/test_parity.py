"""Everything that the public C++ headers declare is in Python, or is listed here with the reason why not."""

import inspect
import re

import headers

import varve as vv
from varve import _core, data, distributed, fft, linalg, nn, optim, train, zoo

MODULES = {"varve": vv, "varve::nn": nn, "varve::optim": optim, "varve::data": data, "varve::train": train, "varve::zoo": zoo, "varve::linalg": linalg, "varve::fft": fft,
           "varve::distributed": distributed,
           "varve::expr": vv, "varve::nn::init": nn}  # fmt: skip

# Under another name in Python: a path from `varve`.
RENAMED = {
    "varve::custom_gradient": "custom_vjp", "varve::checkpoint_many": "checkpoint", "varve::boolean": "bool_",
    "varve::load_safetensors": "load", "varve::save_safetensors": "save", "varve::load_safetensors_metadata": "load_metadata",
    "varve::resize_to_fill": "data.resize", "varve::load_picture": "data.load_picture",
    "varve::save_png": "data.save_png", "varve::OpDef": "Operator", "varve::OpDef::record": "Operator.formula",
    "varve::OpDef::call": "Operator.__call__", "varve::TensorType::str": "TensorType.__repr__", "varve::full_int": "full",
    "varve::from_memory": "asarray", "varve::version": "__version__", "varve::Pullback": "vjp", "varve::Range": "Tensor.__getitem__",
    "varve::slice": "Tensor.__getitem__", "varve::Tensor::slice": "Tensor.__getitem__", "varve::Tensor::rank": "Tensor.ndim",
    "varve::Tensor::numel": "Tensor.size", "varve::Tensor::dim": "Tensor.shape", "varve::Tensor::to": "Tensor.astype",
    "varve::Tensor::to_vector": "Tensor.tolist", "varve::Tensor::data": "Tensor.numpy", "varve::Tensor::str": "Tensor.__str__",
    "varve::Variable::set_trainable": "Variable.trainable", "varve::expr::select": "where", "varve::expr::min": "minimum",
    "varve::expr::max": "maximum", "varve::expr::pow": "power", "varve::expr::mod": "remainder",
    "varve::expr::derivative": "Expr.derivative", "varve::expr::print": "Expr.__repr__", "varve::Cost": "Cost",
    "varve::expr::Expr::make": "Operator.__call__", "varve::Compiled": "Compiled", "varve::optim::Bound": "optim.BoundOptimizer",
    "varve::optim::Bound::set_rate": "optim.BoundOptimizer.rate", "varve::optim::Bound::current_rate": "optim.BoundOptimizer.rate",
    "varve::optim::Group": "optim.Optimizer.group", "varve::optim::by_name": "optim.Adam", "varve::optim::sgd": "optim.SGD",
    "varve::optim::adamw": "optim.AdamW", "varve::optim::schedule_by_name": "optim.cosine", "varve::zoo::Entry::make": "zoo.make",
    "varve::data::Random": "data.SampleRandom", "varve::data::Vocabulary::size": "data.Vocabulary.__len__",
    "varve::data::Dataset::size": "data.Dataset.__len__", "varve::data::from_tensors": "data.dataset",
    "varve::data::batches": "data.DataLoader", "varve::data::Loader": "data.DataLoader", "varve::data::Loader::batches": "data.DataLoader.__len__",
    "varve::data::Loader::next": "data.DataLoader.__iter__", "varve::data::Loader::begin": "data.DataLoader.__iter__",
    "varve::data::Loader::end": "data.DataLoader.__iter__", "varve::nn::Sequential::size": "nn.Sequential.__len__",
    "varve::nn::Watch": "nn.watch", "varve::nn::Precision": "nn.precision", "varve::nn::Precision::current": "nn.precision",
    "varve::nn::SyncBatchNorm": "nn.sync_batch_norm", "varve::nn::SyncBatchNorm::current": "nn.sync_batch_norm",
    "varve::nn::Module::hook": "nn.Module.register_forward_hook",
    "varve::nn::Module::hook_gradient": "nn.Module.register_gradient_hook", "varve::nn::deep_copy": "nn.Module.__reduce__", "varve::nn::Summary::str": "nn.Summary.__repr__",
    "varve::nn::Module::named_variables": "nn.Module.state_dict", "varve::nn::Module::weights": "nn.Module.state_dict",
    "varve::nn::Module::set_weights": "nn.Module.load_state_dict", "varve::nn::network_from_toml": "nn.load_network",
    "varve::train::find_rate": "train.lr_find", "varve::train::run_folders": "train.runs", "varve::nn::function": "nn.Lambda",
    "varve::train::worst_samples": "train.worst", "varve::nn::MultiHeadAttention::attend": "nn.attend",
    "varve::train::curves_svg": "train.History.curves", "varve::train::class_scores": "train.Score.by_class",
    "varve::Scope::kEveryRank": "nn.Module.place", "varve::Scope::rank": "nn.Module.place",
    "varve::nn::PlaceOptions": "nn.Module.place", "varve::nn::Split": "nn.Module.place",
    "varve::nn::split_by_name": "nn.Module.place",
    "varve::nn::Module::summarize": "nn.Module.summary",
    "varve::load_wav": "data.load_wav", "varve::decode_wav": "data.load_wav", "varve::save_wav": "data.save_wav",
    "varve::save_jpeg": "data.save_jpeg", "varve::load_mask": "data.load_mask", "varve::save_mask": "data.save_mask",
    "varve::resample": "data.resample", "varve::log_mel": "data.log_mel",
    "varve::nn::Module::forward_all": "nn.Module.forward", "varve::nn::Module::build_all": "nn.Module.build",
    "varve::data::Dataset::sample": "data.Dataset.at", "varve::train::predict_all": "train.predict",
    "varve::jacobians": "jacobian", "varve::hessians": "hessian", "varve::Jvp": "jvp",
}  # fmt: skip
RENAMED["varve::optim::lbfgs"] = "optim.LBFGS"
for _name in ("adam", "rmsprop", "adagrad", "adadelta", "lamb", "lion", "adafactor", "muon"):
    RENAMED[f"varve::optim::{_name}"] = f"optim.{_name.capitalize()}"

# Not in Python, and why.
_FLAT = "a function returns these as a tuple"
_RULES = "rules written in Python are functions: vv.define"
_OWN = "Python has its own"
_LITERAL = "a string"
_HOUSE = "for the house"
REASONS = {
    "::std": "of structured bindings", "varve::Pullback": "vv.vjp returns a tuple", "varve::optim::Group": "arguments of Optimizer.group",
    "varve::Range": "slices", "varve::kEnd": "slices", "varve::new_axis": "None in an index",
    "varve::ellipsis": "...", "varve::Index": "anything in an index", "varve::ReducedAxes": "axis=",
    "varve::CompiledTree": "vv.compile", "varve::nn::HeldLayer": "attributes of a module", "varve::nn::SharedByCopies": "for layers in C++", "varve::kAllDTypes": "list(vv.DType)", "varve::DType": "vv.DType; boolean is bool_",
    "varve::name": "str() of an element type; the others are strings", "varve::parse_dtype": "every argument dtype takes a name",
    "varve::half": "NumPy's float16", "varve::bfloat16": "ml_dtypes.bfloat16", "varve::dtype_of": "of C++ types",
    "varve::printable": "for messages", "varve::nearest": "for messages", "varve::did_you_mean": "for messages",
    "varve::expr::Prim": "operators of Python make symbols", "varve::expr::name": "of Prim", "varve::expr::arity": "of Prim",
    "varve::expr::Expr::node": "for backends",
    "varve::expr::Expr::ptr": "for backends", "varve::expr::ExprNode": "for backends", "varve::expr::Instr": "for backends",
    "varve::expr::Code": "for backends", "varve::expr::flatten": "for backends", "varve::expr::evaluate": "for backends",
    "varve::expr::substitute": "call the formula with other symbols", "varve::expr::Formula": "a Python function",
    "varve::Safetensors": "a dict", "varve::Picture": "a tensor u8 [height, width, channels]",
    "varve::has_picture_name": "for the command line", "varve::save_text": _OWN, "varve::load_text": _OWN, "varve::load_bytes": _OWN,
    "varve::KernelView": _RULES, "varve::KernelCall": _RULES, "varve::Attr": _RULES, "varve::Attrs": _RULES, "varve::Call": _RULES,
    "varve::Layout": "for backends", "varve::contiguous": "for backends", "varve::is_contiguous": "for backends",
    "varve::Positions": _RULES, "varve::ResultType": _LITERAL, "varve::OpRecord": _RULES, "varve::Elementwise": "arguments of vv.elementwise",
    "varve::Padding": "a number or a pair", "varve::BatchNorm": _FLAT, "varve::ScanStep": _FLAT, "varve::ScanResult": _FLAT,
    "varve::RecurrentWeights": "a tuple for each layer", "varve::RecurrentResult": _FLAT, "varve::Reduction": _LITERAL, "varve::ScatterMode": _LITERAL, "varve::Unique": _FLAT, "varve::Interpolation": _LITERAL, "varve::Alignment": _LITERAL, "varve::Rounding": _LITERAL, "varve::GridPadding": _LITERAL,
    "varve::Timing": _RULES, "varve::distributed::WireTime": _FLAT, "varve::distributed::Received": _FLAT, "varve::distributed::LaunchOptions": "arguments of launch",
    "varve::data::share_of": "a DataLoader reads its rank's share", "varve::data::BatchShare": "a DataLoader reads its rank's share",
    "varve::data::batch_share": "a DataLoader reads its rank's share",
    "varve::linalg::SlogDet": _FLAT, "varve::linalg::Qr": _FLAT, "varve::linalg::Eigh": _FLAT, "varve::linalg::Svd": _FLAT,
    "varve::fft::Complex": "a pair of tensors", "varve::fft::Norm": _LITERAL,
    "varve::Updated": _FLAT, "varve::GradientRows": _FLAT, "varve::ProductType": _LITERAL, "varve::tf32": _LITERAL, "varve::parse_precision": _LITERAL,
    "varve::Shape": "tuples", "varve::broadcast": "for shape rules in C++", "varve::normalize_axis": "for shape rules in C++",
    "varve::VmapOptions": "arguments of vmap", "varve::Randomness": _LITERAL, "varve::Jvp": _FLAT,
    "varve::JacobianMode": _LITERAL, "varve::Batching": _RULES, "varve::batch_leading": _RULES, "varve::batch_along_axis": _RULES,
    "varve::batch_one_by_one": _RULES,
    "varve::Tensor::defined": "None is the tensor that is not there", "varve::Tensor::type": "dtype and shape",
    "varve::Tensor::value": "for the house", "varve::Tensor::node": "for the house", "varve::Tensor::index": "for the house",
    "varve::Operand": "a tensor or a number", "varve::Variable::rename": "modules name their variables", "varve::Variable::type": "dtype and shape",
    "varve::Variable::state": "for the house", "varve::Vjp": _RULES, "varve::to_vector": "a template", "varve::item": "a template",
    "varve::Mode": "train=True or False", "varve::text": "tomllib",
    "varve::optim::names": "dir(optim)", "varve::optim::schedule_names": "dir(optim)", "varve::optim::options_of": "help(optim.Adam)",
    "varve::optim::schedule_options_of": "help(optim.cosine)", "varve::optim::Progress": "arguments of Schedule.factor",
    "varve::Tensors": "a dict of tensors, or a tuple", "varve::Field": "(name, shape, dtype)", "varve::str": "of Field",
    "varve::places_of": _HOUSE, "varve::data::FieldSource": "an object with __len__ and __getitem__",
    "varve::data::whole_fields": "Dataset.arrays", "varve::train::Loss::of_all": "call it",
    "varve::data::Source": "an object with __len__ and __getitem__", "varve::data::Image": "functions of arrays: Dataset.map",
    "varve::data::Transform": "functions of arrays, or names: Dataset.map", "varve::data::TableEncoder::named": _HOUSE,
    "varve::data::TableEncoder::separator": _HOUSE, "varve::data::TableEncoder::target_place": _HOUSE,
    "varve::data::TableEncoder::Rows": _FLAT, "varve::data::Info": "properties of Dataset", "varve::data::Dataset::info": "properties of Dataset",
    "varve::data::Dataset::defined": "None", "varve::data::Dataset::source": _HOUSE, "varve::data::Dataset::read": _HOUSE,
    "varve::data::whole": "Dataset.arrays", "varve::data::Batch": _FLAT, "varve::data::Loader::Iterator": "iter()",
    "varve::data::Loader::waited_seconds": "for the trainer", "varve::data::batch_count": "len() of a DataLoader",
    **{f"varve::data::{name}": "a name in Dataset.map" for name in (
        "random_crop", "random_flip", "random_rotate", "random_scale", "cutout", "jitter", "noise", "transform_by_name")},
    "varve::data::transform_options_of": "an unknown option is answered with the known ones",
    "varve::nn::Join": _LITERAL, "varve::nn::Graph": "networks with branches are modules in Python", "varve::nn::Fans": "arguments of an initialiser",
    "varve::nn::init": "names, or functions: weight_init", "varve::nn::name": "of Split", "varve::nn::Activation": "names, or functions: activation",
    "varve::nn::activation_by_name": "names", "varve::nn::activations": "names", "varve::nn::Activate": "nn.Activation",
    "varve::nn::Dense::kAsInput": "for the house", "varve::nn::Pair": "a number or a pair", "varve::nn::Triple": "a number or three", "varve::nn::VolumePadding": "a string or numbers", "varve::nn::Pool3d": "nn.MaxPool3d, nn.AvgPool3d", "varve::nn::ConvPadding": "a string or numbers",
    "varve::nn::same": _LITERAL, "varve::nn::Pool2d": "nn.MaxPool2d, nn.AvgPool2d", "varve::nn::Function": "nn.Lambda",
    "varve::nn::Norm": "nn.LayerNorm, nn.RmsNorm, nn.GroupNorm, nn.InstanceNorm", "varve::nn::Embedding::weight": "variable(\"weight\")",
    "varve::nn::Recurrent": "nn.RNN, nn.LSTM, nn.GRU", "varve::nn::ForeignLayout": "layout=\"pytorch\"", "varve::nn::NamedVariable": _FLAT,
    "varve::nn::Module::state": _HOUSE, "varve::nn::Module::unhook": "Hook.remove", "varve::nn::Watch::Call": "arguments of the function",
    "varve::nn::Masking": "forward takes a mask, or does not", "varve::nn::Masked": _FLAT, "varve::nn::MaskedTensors": _FLAT,
    "varve::nn::Mask::defined": "None", "varve::nn::Module::masking": "forward takes a mask, or does not",
    "varve::nn::Module::masked_forward": "forward(x, train, mask)", "varve::nn::Module::masked_all": "masked",
    "varve::train::Loss::each": "a function may give a number for each sample", "varve::train::Loss::counts": "cross_entropy_with",
    "varve::train::Loss::weights_of": "for the trainer", "varve::train::CrossEntropyLoss": "arguments of cross_entropy_with",
    "varve::train::Metric::weighted": "Metric.sums takes weights",
    "varve::nn::SyncBatchNorm::counted": _HOUSE, "varve::nn::Shard": "fit does it", "varve::nn::Sequential::forward_all": "forward takes several",
    "varve::nn::copies::remember_copier": _HOUSE, "varve::nn::copies::deep_copy": _HOUSE, "varve::nn::AddedLosses::empty": "total() is 0",
    "varve::nn::layer": "every module is shared in Python", "varve::nn::compute_type": "for layers in C++", "varve::nn::TextNetwork": _HOUSE,
    "varve::nn::OwnNames": "the package does it", "varve::nn::LayerKey": "help(nn.Dense)", "varve::nn::LayerSchema": "help(nn.Dense)",
    "varve::nn::layer_schemas": "dir(nn)", "varve::train::Named": _HOUSE, "varve::train::ConfigKey": "docs/network-files.md",
    "varve::train::config_keys": "docs/network-files.md", "varve::train::metrics_for": "what fit takes unless given",
    "varve::train::ClassScores": "dicts", "varve::train::use_machine": "train.run does it", "varve::train::load_data": "train.prepare does it",
    "varve::train::TrainedWith": "train.load_run", "varve::train::trained_with": "train.load_run", "varve::train::test_data": "train.run does it",
    "varve::train::normalization": "train.prepare does it", "varve::train::fit_options": "train.run does it",
    "varve::train::evaluate_options": "train.run does it", "varve::train::Chosen": _FLAT, "varve::train::RunStart": "callbacks",
    "varve::train::RunState": _LITERAL, "varve::train::name": "of RunState", "varve::train::Loss::function": "call it",
    "varve::train::Epoch": "dicts", "varve::train::EarlyStopping": "arguments of early_stopping", "varve::train::Verbosity": _LITERAL,
    "varve::train::Score::loss": "score[\"loss\"]", "varve::train::Score::accuracy": "score[\"accuracy\"]",
    "varve::train::Score::confusion": "Score.matrix", "varve::train::Score::seconds": "time it",
    "varve::train::confusion_svg": "Score shows itself", "varve::train::TrainedModel::dtype": "TrainedModel.input",
    "varve::train::TrainedModel::info": "data.load(…, like=)",
    "varve::Sound": "samples and their rate", "varve::has_sound_name": "for the command line",
    "varve::fit_length": "data.SoundEncoder does it", "varve::data::kind_of_path": "for the command line",
    "varve::data::Missing": _LITERAL, "varve::data::Boxes": "rows of a target", "varve::data::VocTask": _LITERAL,
    "varve::FilledPart": "data.resize(fill=True)", "varve::filled_part": "data.resize(fill=True)",
    "varve::take_nearest": "NumPy's indexing", "varve::data::TargetTransform": "Dataset.map_samples",
    "varve::load_picture_to_fill": "data.image_folder does it", "varve::train::FoundBox": "dicts", "varve::train::box_overlap": "find_boxes does it",
    **{f"varve::data::{name}": "a name in Dataset.map_targets" for name in ("scale_targets", "log_targets", "one_hot_targets")},
    "varve::data_on": "DLPack", "varve::device_stream": "DLPack", "varve::Interrupted": "KeyboardInterrupt",
    "varve::set_interrupt_check": "the package does it", "varve::has_interrupt_check": "the package does it",
    "varve::interrupt_asked": "KeyboardInterrupt", "varve::throw_if_interrupted": "KeyboardInterrupt",
    "varve::optim::Optimizer::Slot": "arguments of an update (optim.own)", "varve::optim::Optimizer::Rule": "arguments of optim.own",
}  # fmt: skip

# Fields of options that are called otherwise as arguments.
FIELDS = {"axes": "axis", "keep": "keepdims", "from": "start", "to": "stop"}

# Options that a function does not take, and why.
_SMALL = "dtype is that of the result"
OPTIONS = {
    "varve::train::run.fetch": "download and quiet", "varve::train::run.progress": "callbacks", "varve::train::run.started": "callbacks",
    "varve::data::imdb.fetch": "download and quiet", "varve::data::ptb.fetch": "download and quiet", "varve::data::characters.fetch": "reads a file",
    "varve::data::ptb.vocabulary": "data.load(…, like=)", "varve::data::batches.skip": "for resumed runs",
    "varve::bernoulli.dtype": _SMALL, "varve::integers.dtype": _SMALL, "varve::categorical.dtype": _SMALL, "varve::permutation.dtype": _SMALL, "varve::dropout.dtype": _SMALL,
    "varve::max_pool3d.count_padding": "of averages", "varve::nn::max_pool3d.count_padding": "of averages",
    "varve::data::shards.rows": "its fields are arguments",
    "varve::max_pool2d.count_padding": "of averages", "varve::rnn.c0": "of lstm", "varve::gru.c0": "of lstm",
    "varve::nn::depthwise_conv2d.groups": "one for each channel", "varve::nn::max_pool2d.count_padding": "of averages",
    "varve::nn::rms_norm.shift": "it has none", "varve::nn::rnn.forget_bias": "of lstm", "varve::nn::gru.forget_bias": "of lstm",
    "varve::optim::muon.orthogonal": "all of two axes or more, but for embeddings",
    "varve::nn::lstm.relu": "of rnn", "varve::nn::gru.relu": "of rnn", "varve::lstm.relu": "of rnn", "varve::gru.relu": "of rnn", "varve::zoo::contrastive_divergence.dtype": _SMALL,
}  # fmt: skip


def find(path):
    """The Python object at a dotted path, or None."""
    value = vv
    for part in path.split("."):
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def place(each):
    """Where the Python counterpart of a declaration is looked for."""
    full = f"{each.namespace}::{each.name}"
    if full in RENAMED:
        return find(RENAMED[full])
    return getattr(MODULES.get(each.namespace), each.name, None)


def arguments(function):
    """The names of a Python function's arguments."""
    signature = getattr(function, "__nb_signature__", None)
    if signature:
        return set(re.findall(r"[(,]\s*\*{0,2}(\w+)", re.sub(r"\[[^\]]*\]|\"[^\"]*\"|'[^']*'", "", signature[0][0])))
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


LAYERS = {name: {key for key, *_ in keys} for name, _, keys in _core._layer_schemas()}
TABLES = {"varve::data": {name: {*options, "download", "quiet"} for name, _, options, *_ in _core._catalog()}, "varve::nn": LAYERS, "varve::optim": {name: set(keys) for name, keys in _core._optimizers() + _core._schedules()}}


def by_rule(each):
    """What the tables of the library answer for: options, layers, activations."""
    if each.name.endswith(("Options", "Options2d")):
        return True  # arguments: test_every_option_is_an_argument
    if each.namespace == "varve::nn":
        return each.name in LAYERS or each.name in _core._activations() or each.name in ("sequential", "residual", "branches")
    return False


def listed(full, used):
    """Whether a name, or the whole it belongs to, is listed with a reason."""
    parts = full.split("::")
    for end in range(len(parts), 1, -1):
        key = "::".join(parts[:end])
        if key in REASONS:
            used.add(key)
            return True
    return False


def test_every_declaration_is_here_or_listed():
    declared = headers.everything()
    assert len(declared) > 600
    used, missing = set(), []
    for full, each in declared.items():
        if listed(full, used) or by_rule(each):
            continue
        value = place(each)
        if value is None:
            missing.append(f"{each.kind} {full}")
            continue
        inherited = ("forward", "kind") if each.namespace == "varve::nn" else ()  # a module's
        for member in {*each.methods, *(each.fields if each.kind == "class" else ())} - set(inherited):
            at = RENAMED.get(f"{full}::{member}")
            if not (find(at) if at else hasattr(value, member)) and not listed(f"{full}::{member}", used):
                missing.append(f"member {full}::{member}")
    assert not missing, f"{len(missing)} missing:\n" + "\n".join(missing)
    stale = (set(REASONS) - used) | {name for name in RENAMED if find(RENAMED[name]) is None}
    assert not stale, f"listed, and no longer so: {sorted(stale)}"


def takers(declared, options):
    """The functions that take a struct of options."""
    def means(each):  # the struct of that name that stands nearest
        return each.namespace == options.namespace or (
            options.namespace == "varve" and f"{each.namespace}::{options.name}" not in declared
        )

    return [each for each in declared.values() if each.kind == "function"
            and re.search(rf"\b{options.name}\b", each.parameters) and means(each)]  # fmt: skip


def test_every_option_is_an_argument():
    declared = headers.everything()
    missing, checked, used = [], 0, set()
    for options in declared.values():
        if not options.name.endswith(("Options", "Options2d")):
            continue
        for function in takers(declared, options):
            full = f"{function.namespace}::{function.name}"
            if listed(full, used):
                continue
            table = TABLES.get(function.namespace, {})
            names = table[function.name] if function.name in table else arguments(place(function))
            for field in options.fields:
                checked += 1
                known = OPTIONS.get(f"{full}.{field}")
                if FIELDS.get(field, field) not in names and field not in names and not known:
                    missing.append(f"{full} has no argument '{field}' ({options.name})")
    assert checked > 100
    assert not missing, "\n".join(missing)


def test_listed_options_are_not_there_after_all():
    declared = headers.everything()
    for name in OPTIONS:
        full, field = name.rsplit(".", 1)
        function = declared[full]
        table = TABLES.get(function.namespace, {})
        assert field not in (table.get(function.name) or arguments(place(function))), name
