// Files of NumPy, and pictures as bytes.
#include "arguments.h"

namespace varve::python {
namespace {

Tensor to_pixels(const Picture& picture) {
  return tensor(picture.pixels, {picture.height, picture.width, picture.channels});
}

Picture to_picture(const Tensor& x) {
  if (x.dtype() != u8 || x.rank() != 3 || (x.dim(2) != 1 && x.dim(2) != 3))
    throw Error("a picture is u8 [height, width, 1 or 3], got " + x.type().str() + ".");
  return {x.dim(0), x.dim(1), x.dim(2), x.to_vector<std::uint8_t>()};
}

}  // namespace

void bind_io(nb::module_& m) {
  op(
      m, "save_npy", [](const Path& path, const Tensor& x) { save_npy(path.text, x); },
      R"(A tensor as NumPy's .npy file.

>>> vv.save_npy("a.npy", vv.ones(3))
>>> vv.load_npy("a.npy").tolist()
[1.0, 1.0, 1.0])",
      "path"_a, "tensor"_a);
  op(
      m, "load_npy", [](const Path& path) { return load_npy(path.text); }, R"(The tensor of a .npy file.

>>> vv.save_npy("b.npy", vv.arange(3))
>>> vv.load_npy("b.npy").dtype
varve.i64)",
      "path"_a);
  m.def(
      "save_npz",
      [](nb::handle path, nb::handle tensors) {
        static const Where at[] = {{"save_npz", "path", false}, {"save_npz", "tensors", false}};
        const std::string file = to_path(path, at[0]);
        if (!PyDict_Check(tensors.ptr())) wrong_kind(at[1], "a dict of tensors", tensors);
        std::map<std::string, Tensor> all;
        for (const auto& [name, value] : nb::borrow<nb::dict>(tensors))
          all[to_text(name, at[1])] = to_tensor(value, at[1]);
        unlocked([&] { save_npz(file, all); });
      },
      "path"_a.none(), "tensors"_a.none(),
      nb::sig("def save_npz(path: PathLike, tensors: Mapping[str, TensorLike]) -> None"),
      R"(A dict of tensors as NumPy's .npz file.

>>> vv.save_npz("c.npz", {"w": vv.ones(2)})
>>> vv.load_npz("c.npz")["w"].tolist()
[1.0, 1.0])");
  op(
      m, "load_npz", [](const Path& path) { return load_npz(path.text); }, R"(The tensors of a .npz file, by name.

>>> vv.save_npz("d.npz", {"w": vv.ones(2), "b": vv.zeros(1)})
>>> sorted(vv.load_npz("d.npz"))
['b', 'w'])",
      "path"_a);
  m.def(
      "decode_picture",
      [](nb::handle data, nb::handle channels) {
        static const Where at[] = {{"decode_picture", "data", false}, {"decode_picture", "channels", false}};
        if (!PyBytes_Check(data.ptr())) wrong_kind(at[0], "bytes", data);
        const nb::bytes held = nb::borrow<nb::bytes>(data);
        const int wanted = static_cast<int>(to_integer(channels, at[1]));
        return unlocked([&] { return to_pixels(decode_picture(held.data(), held.size(), "the bytes", wanted)); });
      },
      "data"_a.none(), "channels"_a = 0, nb::sig("def decode_picture(data: bytes, channels: int = 0) -> Tensor"),
      R"(The picture in the bytes of a JPEG, PNG, WebP, GIF or BMP file, upright, as u8 [height, width, channels].

channels: 0 as it is, 1 grey, 3 colour. data.load_picture reads a file.

>>> vv.decode_picture(vv.encode_png(vv.ones((2, 2, 1), dtype="u8"))).reshape(4).tolist()
[1, 1, 1, 1])");
  m.def(
      "encode_png",
      [](nb::handle picture) {
        const Tensor x = to_tensor(picture, {"encode_png", "picture", false});
        const std::vector<std::uint8_t> bytes = unlocked([&] { return encode_png(to_picture(x)); });
        return nb::bytes(bytes.data(), bytes.size());
      },
      "picture"_a.none(), nb::sig("def encode_png(picture: TensorLike) -> bytes"),
      R"(A picture, u8 [height, width, 1 or 3], as the bytes of a PNG file.

>>> vv.encode_png(vv.zeros((4, 6, 3), dtype="u8"))[1:4]
b'PNG')");
}

}  // namespace varve::python
