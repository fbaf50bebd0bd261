// The two versions of oneDNN must look the same through this header. What the
// primitives compute is compared in against_reference_test.
#include "engine/backends/cpu/kernel/dnnl_versions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

TEST(DnnlVersionsTest, AnyFormatKeepsDimensionsAndType) {
  const memory::desc plain({2, 3, 4, 5}, memory::data_type::bf16, Tag::nhwc);
  EXPECT_EQ(AnyFormat(plain),
            memory::desc({2, 3, 4, 5}, memory::data_type::bf16, Tag::any));
}

TEST(DnnlVersionsTest, FormatsHaveTheSameTextWhenTheyAreEqual) {
  const std::vector<memory::desc> formats = {
      {{16, 8, 3, 3}, memory::data_type::f32, Tag::oihw},
      {{16, 8, 3, 3}, memory::data_type::bf16, Tag::oihw},
      {{16, 8, 3, 3}, memory::data_type::f32, Tag::ohwi},
      {{16, 8, 3, 3}, memory::data_type::f32, Tag::Ohwi8o},
      {{16, 8, 3, 3}, memory::data_type::f32, Tag::Ohwi16o},
      {{16, 9, 3, 3}, memory::data_type::f32, Tag::oihw},
      {{13, 8, 3, 3}, memory::data_type::f32, Tag::Ohwi16o}};
  std::set<std::string> texts;
  for (const memory::desc& format : formats) {
    EXPECT_EQ(FormatText(format), FormatText(memory::desc(format)));
    texts.insert(FormatText(format));
  }
  EXPECT_EQ(texts.size(), formats.size());
}

// Max pools keep the chosen cells in the graph's argmax, so the workspace must
// have its type.
TEST(DnnlVersionsTest, PoolsAreNotDilated) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const PoolShape pool{
      .algorithm = dnnl::algorithm::pooling_max,
      .x = memory::desc({1, 1, 4, 4}, memory::data_type::f32, Tag::nchw),
      .y = memory::desc({1, 1, 2, 2}, memory::data_type::f32, Tag::nchw),
      .stride = {2, 2},
      .kernel = {2, 2},
      .begin = {0, 0},
      .end = {0, 0}};
  const auto forward =
      DescribePool(engine, {}, dnnl::prop_kind::forward_training, pool);
  const auto backward = DescribePoolGradient(engine, {}, forward, pool);
  EXPECT_EQ(forward.workspace_desc(),
            memory::desc({1, 1, 2, 2}, memory::data_type::u8, Tag::nchw));

  std::vector<float> x = {1, 2,  3,  4,  8,  7,  6,  5,
                          9, 10, 11, 12, 16, 15, 14, 13};
  std::vector<float> y(4), dx(16);
  std::vector<uint8_t> argmax(4);
  const memory ys(pool.y, engine, y.data());
  const memory cells(forward.workspace_desc(), engine, argmax.data());
  dnnl::stream stream(engine);
  dnnl::pooling_forward(forward).execute(
      stream, {{DNNL_ARG_SRC, memory(pool.x, engine, x.data())},
               {DNNL_ARG_DST, ys},
               {DNNL_ARG_WORKSPACE, cells}});
  dnnl::pooling_backward(backward).execute(
      stream, {{DNNL_ARG_DIFF_DST, ys},
               {DNNL_ARG_DIFF_SRC, memory(pool.x, engine, dx.data())},
               {DNNL_ARG_WORKSPACE, cells}});
  stream.wait();
  EXPECT_EQ(y, (std::vector<float>{8, 6, 16, 14}));
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 0, 8, 0, 6, 0,  //
                                    0, 0, 0, 0, 16, 0, 14, 0}));
}

}  // namespace
}  // namespace gpupool::engine
