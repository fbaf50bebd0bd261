#include "engine/data/column_buffer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Writes of this length cost little beside the disk's own time.
constexpr size_t kFlushBytes = 1 << 20;

absl::Status DiskError(const std::string& folder, int error) {
  const std::string text =
      absl::StrCat("the unpacked dataset cannot be written to ", folder, ": ",
                   std::strerror(error));
  if (error != ENOSPC && error != EDQUOT) return absl::InternalError(text);
  return absl::ResourceExhaustedError(absl::StrCat(
      text,
      "; make room there, or upload the data as NPY or NPZ files that "
      "are not compressed, which need no copy"));
}

// Opens a new file that goes with its last descriptor and mapping. Returns -1
// and sets errno on errors.
int OpenWithoutName(const std::string& folder) {
  const int made = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // Some file systems, such as NFS, can only remove the name afterwards.
  if (made >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return made;
  std::string path = folder + "/unpacked-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

ColumnBuffer::~ColumnBuffer() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status ColumnBuffer::Reserve(uint64_t bytes) {
  try {
    bytes_.reserve(bytes);
  } catch (const std::exception&) {  // bad_alloc or length_error
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", bytes, " bytes for a dataset"));
  }
  return absl::OkStatus();
}

absl::Status ColumnBuffer::MoveToDisk(const std::string& folder) {
  GPUPOOL_CHECK(descriptor_ < 0);
  folder_ = folder;
  descriptor_ = OpenWithoutName(folder);
  if (descriptor_ < 0) return DiskError(folder, errno);
  RETURN_IF_ERROR(Flush());
  bytes_.shrink_to_fit();
  return absl::OkStatus();
}

absl::Status ColumnBuffer::Append(absl::Span<const char> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  const bool full = descriptor_ >= 0 && bytes_.size() >= kFlushBytes;
  return full ? Flush() : absl::OkStatus();
}

absl::Status ColumnBuffer::Flush() {
  for (size_t done = 0; done < bytes_.size();) {
    const ssize_t count =
        write(descriptor_, bytes_.data() + done, bytes_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskError(folder_, errno);
    done += static_cast<size_t>(count);
  }
  bytes_.clear();
  return absl::OkStatus();
}

absl::Status ColumnBuffer::MoveTo(Column& column) {
  if (descriptor_ < 0) {
    auto memory = std::make_shared<std::vector<char>>(std::move(bytes_));
    column.data = memory->data();
    column.memory = std::move(memory);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Flush());
  ASSIGN_OR_RETURN(
      MappedFile file,
      MappedFile::OfDescriptor(std::exchange(descriptor_, -1), folder_));
  column.data = file.bytes().data();
  column.file = std::make_shared<const MappedFile>(std::move(file));
  return absl::OkStatus();
}

absl::StatusOr<Column> ColumnOfClasses(absl::Span<const int64_t> classes,
                                       const std::string& folder) {
  Column column = {.type = ElementType::kInt64,
                   .stored = ElementType::kInt64,
                   .rows = classes.size()};
  const uint64_t bytes = classes.size() * sizeof(int64_t);
  ColumnBuffer buffer;
  RETURN_IF_ERROR(folder.empty() ? buffer.Reserve(bytes)
                                 : buffer.MoveToDisk(folder));
  RETURN_IF_ERROR(
      buffer.Append({reinterpret_cast<const char*>(classes.data()), bytes}));
  RETURN_IF_ERROR(buffer.MoveTo(column));
  column.facts = SummarizeLabels(column);
  return column;
}

}  // namespace gpupool::engine
