#include "client/cli/devices/memory_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_format.h"
#include "tests/client/testing/count_of.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

class MemoryPictureTest : public ::testing::Test {
 protected:
  MemoryPictureTest() {
    snapshot_.set_device("cpu:0");
    snapshot_.mutable_time()->set_seconds(1000);
  }
  v1::MemorySnapshot::Segment* AddSegment(uint64_t address) {
    v1::MemorySnapshot::Segment* segment = snapshot_.add_segments();
    segment->set_address(address);
    return segment;
  }
  // Appends a block; without an owner it is free.
  static v1::MemorySnapshot::Block* AddBlock(
      v1::MemorySnapshot::Segment* segment, uint64_t bytes,
      const std::string& owner = "") {
    v1::MemorySnapshot::Block* block = segment->add_blocks();
    block->set_offset(segment->bytes());
    block->set_bytes(bytes);
    block->set_free(owner.empty());
    block->set_owner(owner);
    segment->set_bytes(segment->bytes() + bytes);
    return block;
  }
  std::string Picture() const { return SnapshotPicture(snapshot_); }

  v1::MemorySnapshot snapshot_;
};

TEST_F(MemoryPictureTest, BlocksHaveTheColourOfTheirUseAndTheirOwner) {
  v1::MemorySnapshot::Segment* first = AddSegment(0x10000);
  AddBlock(first, 3 * kMebibyte, "job 7 / weights");
  AddBlock(first, 2 * kMebibyte, "job <7> / arena");
  AddBlock(first, kMebibyte, "bench / buffers");
  AddBlock(first, 2 * kMebibyte);
  AddBlock(first, kMebibyte)->set_free(false);  // given back
  AddBlock(AddSegment(0x900000), kMebibyte, "model digits/1 / weights");
  const std::string svg = Picture();
  EXPECT_THAT(svg, HasSubstr(">Memory of cpu:0: 10.0 MiB in 2 segments<"));
  for (const char* text :
       {">weights 4.0 MiB<", ">arena 2.0 MiB<", ">other 1.0 MiB<",
        ">free 2.0 MiB<", ">given back, a stream still uses it 1.0 MiB<",
        ">0x10000  9.0 MiB<", ">0x900000  1.0 MiB<",
        "<title>job 7 / weights, 3.0 MiB at offset 0 B</title>",
        "<title>job &lt;7> / arena, 2.0 MiB at offset 3.0 MiB</title>",
        ">job 7 / weights</text>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("optimizer "))) << "only what is there";
}

TEST_F(MemoryPictureTest, NarrowBlocksAreOneBarWithTheColourOfMostBytes) {
  v1::MemorySnapshot::Segment* segment = AddSegment(0);
  AddBlock(segment, 4096 * kMebibyte, "job 1 / arena");
  for (int i = 0; i < 100'000; ++i) {
    AddBlock(segment, 20'000, "job 1 / packed");
    AddBlock(segment, 1'000);
  }
  const std::string svg = Picture();
  EXPECT_THAT(svg, HasSubstr(" blocks, most bytes packed, "));
  EXPECT_LT(CountOf(svg, "<g>"), 1200u);
  // No byte is lost.
  EXPECT_THAT(svg,
              AllOf(HasSubstr(">packed 1.9 GiB<"), HasSubstr("class=\"k3\"/>"),
                    HasSubstr(">free 95.4 MiB<")));
}

TEST_F(MemoryPictureTest, ManySegmentsAreBounded) {
  for (uint64_t i = 0; i < 1000; ++i) {
    v1::MemorySnapshot::Segment* segment = AddSegment(i << 40);
    for (int block = 0; block < 500; ++block) {
      AddBlock(segment, 64 * (i + 1), block % 2 == 0 ? "job 1 / arena" : "");
    }
  }
  const std::string svg = Picture();
  EXPECT_THAT(svg, HasSubstr(">800 smaller segments are left out<"));
  EXPECT_LT(CountOf(svg, "<g>"), 40'500u);
  EXPECT_THAT(svg, HasSubstr(absl::StrFormat(">0x%x ", uint64_t{999} << 40)))
      << "the largest is shown";
}

TEST_F(MemoryPictureTest, DrawsTheHistoryOrSaysHowToGetOne) {
  AddBlock(AddSegment(0), kMebibyte, "job 1 / arena");
  EXPECT_THAT(Picture(), HasSubstr("`gpupool devices history cpu:0 on`"));
  for (int i = 0; i < 3; ++i) {
    v1::MemoryPoint* point = snapshot_.add_timeline();
    point->mutable_end_time()->set_seconds(990 + i);
    point->set_allocated_bytes(kMebibyte);
    point->set_reserved_bytes(2 * kMebibyte);
  }
  const std::string svg = Picture();
  for (const char* text :
       {">History of cpu:0<", ">allocated<", ">reserved<", ">MiB<",
        ">seconds; the snapshot is at 0<", ">-10<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(MemoryPictureTest, ADeviceWithoutMemoryHasAPictureToo) {
  EXPECT_THAT(Picture(), HasSubstr(">Memory of cpu:0: 0 B in 0 segments<"));
}

}  // namespace
}  // namespace gpupool::client
