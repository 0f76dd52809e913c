// im2col and col2im: images and columns as views of each other; max_unpool.

#include <ATen/native/Resize.h>
#include <ATen/native/im2col_shape_check.h>
#include <torch/library.h>

#include <array>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

// Of two numbers each, for h and w.
struct Unfolding {
  IntArrayRef kernel, dilation, padding, stride;
};

void CheckPairs(const Unfolding& u) {
  TORCH_CHECK(u.kernel.size() == 2,
              "It is expected kernel_size equals to 2, but got size ",
              u.kernel.size());
  TORCH_CHECK(u.dilation.size() == 2,
              "It is expected dilation equals to 2, but got size ",
              u.dilation.size());
  TORCH_CHECK(u.padding.size() == 2,
              "It is expected padding equals to 2, but got size ",
              u.padding.size());
  TORCH_CHECK(u.stride.size() == 2,
              "It is expected stride equals to 2, but got size ",
              u.stride.size());
}

int64_t Windows(const Unfolding& u, size_t dim, int64_t size) {
  const int64_t span = u.dilation[dim] * (u.kernel[dim] - 1) + 1;
  return (size + 2 * u.padding[dim] - span) / u.stride[dim] + 1;
}

// [N, C, kh, kw, oh, ow]: each window of a padded image [N, C, h, w], in
// place.
Tensor WindowsOf(const Tensor& padded, const Unfolding& u, int64_t oh,
                 int64_t ow) {
  const auto strides = padded.strides();
  return padded.as_strided(
      {padded.size(0), padded.size(1), u.kernel[0], u.kernel[1], oh, ow},
      {strides[0], strides[1], strides[2] * u.dilation[0],
       strides[3] * u.dilation[1], strides[2] * u.stride[0],
       strides[3] * u.stride[1]},
      padded.storage_offset());
}

Tensor Padded(const Tensor& image, const Unfolding& u) {
  const int64_t h = image.size(2), w = image.size(3);
  if (u.padding[0] == 0 && u.padding[1] == 0) return image;
  const Tensor padded =
      EmptyLikeOf(image, {image.size(0), image.size(1), h + 2 * u.padding[0],
                          w + 2 * u.padding[1]});
  padded.zero_();
  padded.narrow(2, u.padding[0], h).narrow(3, u.padding[1], w).copy_(image);
  return padded;
}

Tensor& Im2colOut(const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride,
                  Tensor& out) {
  const Unfolding u{kernel_size, dilation, padding, stride};
  CheckPairs(u);
  at::native::im2col_shape_check(self, Tensor(), kernel_size[0], kernel_size[1],
                                 dilation[0], dilation[1], padding[0],
                                 padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 4;
  const Tensor image = batched ? self : self.unsqueeze(0);
  const int64_t oh = Windows(u, 0, image.size(2)),
                ow = Windows(u, 1, image.size(3));
  const std::array<int64_t, 3> sizes{
      image.size(0), image.size(1) * kernel_size[0] * kernel_size[1], oh * ow};
  ResizeOut(out, batched ? IntArrayRef(sizes) : IntArrayRef(sizes).slice(1), {},
            self.options());
  if (out.numel() == 0) return out;
  const Tensor windows = WindowsOf(Padded(image, u), u, oh, ow);
  ThroughContiguous(out, [&](const Tensor& columns) {
    columns.view(windows.sizes()).copy_(windows);
  });
  return out;
}

Tensor Im2col(const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  Tensor out = EmptyLikeOf(self, {0});
  return Im2colOut(self, kernel_size, dilation, padding, stride, out);
}

Tensor& Col2imOut(const Tensor& self, IntArrayRef output_size,
                  IntArrayRef kernel_size, IntArrayRef dilation,
                  IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  TORCH_CHECK(output_size.size() == 2,
              "It is expected output_size equals to 2, but got size ",
              output_size.size());
  const Unfolding u{kernel_size, dilation, padding, stride};
  CheckPairs(u);
  at::native::col2im_shape_check(self, Tensor(), output_size[0], output_size[1],
                                 kernel_size[0], kernel_size[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0],
                                 stride[1]);
  const bool batched = self.dim() == 3;
  const Tensor columns = (batched ? self : self.unsqueeze(0)).contiguous();
  const int64_t h = output_size[0], w = output_size[1];
  const int64_t oh = Windows(u, 0, h), ow = Windows(u, 1, w);
  const int64_t channels = columns.size(1) / (kernel_size[0] * kernel_size[1]);
  const std::array<int64_t, 4> sizes{columns.size(0), channels, h, w};
  ResizeOut(out, batched ? IntArrayRef(sizes) : IntArrayRef(sizes).slice(1), {},
            self.options());
  if (out.numel() == 0) return out;
  const Tensor padded = EmptyLikeOf(
      self,
      {columns.size(0), channels, h + 2 * padding[0], w + 2 * padding[1]});
  padded.zero_();
  const Tensor windows = WindowsOf(padded, u, oh, ow);
  const Tensor values = columns.view(windows.sizes());
  // The windows of one tap don't overlap.
  for (int64_t i = 0; i < kernel_size[0]; ++i) {
    for (int64_t j = 0; j < kernel_size[1]; ++j) {
      windows.select(2, i).select(2, j).add_(values.select(2, i).select(2, j));
    }
  }
  const Tensor image = padded.narrow(2, padding[0], h).narrow(3, padding[1], w);
  out.copy_(batched ? image : image.squeeze(0));
  return out;
}

Tensor Col2im(const Tensor& self, IntArrayRef output_size,
              IntArrayRef kernel_size, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  Tensor out = EmptyLikeOf(self, {0});
  return Col2imOut(self, output_size, kernel_size, dilation, padding, stride,
                   out);
}

// --- max_unpool --------------------------------------------------------------

// Puts each element where `indices` says in its plane of zeros.
template <int64_t space>
Tensor& PutBack(const Tensor& self, const Tensor& indices,
                IntArrayRef output_size, const char* name, Tensor& out) {
  TORCH_CHECK(indices.scalar_type() == ScalarType::Long,
              "elements in indices should be type int64 but got: ",
              indices.scalar_type());
  TORCH_CHECK(output_size.size() == space, "There should be exactly ", space,
              " elements in output_size, but got ", output_size.size(),
              " elements.");
  TORCH_CHECK(self.dim() == space + 1 || self.dim() == space + 2, "Input to ",
              name, " should be a ", space + 1, "d or ", space + 2,
              "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(),
              "Expected shape of indices to be same as that of the input "
              "tensor (",
              self.sizes(),
              ") but got indices tensor with shape: ", indices.sizes());
  at::DimVector sizes(self.sizes());
  int64_t plane = 1, part = 1;
  for (size_t i = 0; i < space; ++i) {
    const size_t at = sizes.size() - space + i;
    TORCH_CHECK(sizes[at] > 0, name,
                "(): Expected input to have non-zero size for non-batch "
                "dimensions, but got ",
                self.sizes(), " with dimension ", at, " being empty.");
    part *= sizes[at];
    sizes[at] = output_size[i];
    plane *= sizes[at];
  }
  ResizeOut(out, sizes, {},
            self.options().memory_format(self.suggest_memory_format()));
  if (out.numel() == 0) return out;
  ThroughContiguous(out, [&](const Tensor& result) {
    result.zero_();
    const int64_t planes = self.numel() / part;
    result.view({planes, plane})
        .scatter_(1, indices.contiguous().view({planes, part}),
                  self.contiguous().view({planes, part}));
  });
  return out;
}

Tensor& MaxUnpool2dOut(const Tensor& self, const Tensor& indices,
                       IntArrayRef output_size, Tensor& out) {
  return PutBack<2>(self, indices, output_size, "max_unpooling2d", out);
}

Tensor MaxUnpool2d(const Tensor& self, const Tensor& indices,
                   IntArrayRef output_size) {
  Tensor out = EmptyLikeOf(self, {0});
  return MaxUnpool2dOut(self, indices, output_size, out);
}

Tensor& MaxUnpool3dOut(const Tensor& self, const Tensor& indices,
                       IntArrayRef output_size, IntArrayRef stride,
                       IntArrayRef padding, Tensor& out) {
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) "
              "in stride, but got: ",
              stride.size(), " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) "
              "in padding, but got: ",
              padding.size(), " elements.");
  return PutBack<3>(self, indices, output_size, "max_unpooling3d", out);
}

Tensor MaxUnpool3d(const Tensor& self, const Tensor& indices,
                   IntArrayRef output_size, IntArrayRef stride,
                   IntArrayRef padding) {
  Tensor out = EmptyLikeOf(self, {0});
  return MaxUnpool3dOut(self, indices, output_size, stride, padding, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("im2col", TORCH_FN(Im2col));
  m.impl("im2col.out", TORCH_FN(Im2colOut));
  m.impl("col2im", TORCH_FN(Col2im));
  m.impl("col2im.out", TORCH_FN(Col2imOut));
  m.impl("max_unpool2d", TORCH_FN(MaxUnpool2d));
  m.impl("max_unpool2d.out", TORCH_FN(MaxUnpool2dOut));
  m.impl("max_unpool3d", TORCH_FN(MaxUnpool3d));
  m.impl("max_unpool3d.out", TORCH_FN(MaxUnpool3dOut));
}

}  // namespace tvarant::torch_plugin
