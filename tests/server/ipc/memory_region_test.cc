#include "server/ipc/memory_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

UniqueFd Copy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

TEST(MemoryRegionTest, TwoMappingsOfOneRegionShareBytes) {
  auto first = MemoryRegion::Create("test", 5000);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bytes(), 8192u);
  auto second = MemoryRegion::Attach(Copy(first->fd()));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->bytes(), 8192u);
  std::memcpy(first->data() + 4999, "x", 1);
  EXPECT_EQ(static_cast<char>(second->data()[4999]), 'x');
}

TEST(MemoryRegionTest, SizeCannotChange) {
  auto region = MemoryRegion::Create("test", 4096);
  ASSERT_TRUE(region.ok());
  EXPECT_NE(::ftruncate(region->fd(), 0), 0);
  EXPECT_NE(::ftruncate(region->fd(), 8192), 0);
}

TEST(MemoryRegionTest, RefusesSizesOutOfRange) {
  EXPECT_EQ(MemoryRegion::Create("test", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MemoryRegion::Create("test", ~uint64_t{0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemoryRegionTest, RefusesDescriptorWhoseSizeIsNotSealed) {
  UniqueFd fd(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  EXPECT_EQ(MemoryRegion::Attach(std::move(fd)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemoryRegionTest, RefusesDescriptorThatIsNoMemory) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd read_end(ends[0]);
  EXPECT_EQ(MemoryRegion::Attach(UniqueFd(ends[1])).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MemoryRegion::Attach(UniqueFd()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemoryRegionTest, RefusesEmptySealedRegion) {
  UniqueFd fd(::memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(MemoryRegion::Attach(std::move(fd)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemoryRegionTest, MovedFromRegionOwnsNothing) {
  auto region = MemoryRegion::Create("test", 4096);
  ASSERT_TRUE(region.ok());
  MemoryRegion moved = *std::move(region);
  auto other = MemoryRegion::Create("test", 4096);
  ASSERT_TRUE(other.ok());
  moved = *std::move(other);
  EXPECT_EQ(moved.bytes(), 4096u);
}

}  // namespace
}  // namespace gpupool::server
