#include "client/upload.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/client.h"
#include "client/files/local_file.h"
#include "client/files/sample_folder.h"
#include "client/request_texts.h"
#include "client/resumable_upload.h"
#include "client/upload_reading.h"

namespace gpupool::client {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Returns the name by which the server calls a file, or a folder's archive.
std::string BaseName(const std::string& path) {
  if (IsFolder(path)) {
    std::error_code error;
    std::string name =
        std::filesystem::canonical(path, error).filename().string();
    return (name.empty() ? "images" : name) + ".tar";
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// Returns whether a folder is one of recordings.
bool HoldsRecordings(const std::string& path) {
  if (!IsFolder(path)) return false;
  const absl::StatusOr<SampleList> list = ListSamples(path);
  return list.ok() && list->kind == SampleKind::kAudio;
}

// Returns the format of an upload, as far as it does not follow from the name
// of its file: by its name, the archive of a folder has images.
v1::DatasetFormat GivenFormat(const DatasetUpload& upload) {
  const v1::DatasetFormat format = upload.layout.format();
  return format == v1::DATASET_FORMAT_UNSPECIFIED &&
                 HoldsRecordings(upload.file)
             ? v1::AUDIO
             : format;
}

// Returns whether the name is one of a text file, as the server tells them.
bool HasTextName(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  return absl::EndsWith(absl::StripSuffix(lower, ".gz"), ".txt");
}

// Returns the role of the files after the first one.
v1::DatasetFile::Role RoleOfMoreFiles(const DatasetUpload& upload) {
  const v1::DatasetFormat format = GivenFormat(upload);
  if (format == v1::AUDIO) return v1::DatasetFile::AUDIO;
  const bool text =
      format == v1::TEXT ||
      (format == v1::DATASET_FORMAT_UNSPECIFIED && HasTextName(upload.file));
  return text ? v1::DatasetFile::TABLE : v1::DatasetFile::IMAGES;
}

// Returns a reader without the first `place` bytes, which are read and thrown
// away.
ChunkReader Without(ChunkReader chunks, uint64_t place) {
  return [chunks = std::move(chunks),
          place](std::string& chunk) mutable -> absl::Status {
    absl::Status read = chunks(chunk);
    while (read.ok() && place > 0 && !chunk.empty()) {
      const uint64_t cut = std::min<uint64_t>(place, chunk.size());
      chunk.erase(0, cut);
      place -= cut;
      if (chunk.empty()) read = chunks(chunk);
    }
    return read;
  };
}

// Opens a file, or a folder of samples as an archive, from the byte at `place`
// on.
absl::StatusOr<ChunkReader> OpenChunks(const std::string& path,
                                       uint64_t place) {
  if (IsFolder(path)) {
    absl::StatusOr<SampleList> list = ListSamples(path);
    if (!list.ok()) return list.status();
    return Without([folder = std::make_shared<SampleFolder>(*std::move(list))](
                       std::string& chunk) { return folder->ReadChunk(chunk); },
                   place);
  }
  absl::StatusOr<LocalFile> file = LocalFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::Status sought = file->Seek(place);
  if (!sought.ok()) return sought;
  return [file = std::make_shared<LocalFile>(*std::move(file))](
             std::string& chunk) { return file->ReadChunk(chunk); };
}

// Returns the size of a file, or the least size of a folder's archive.
FileSize SizeOf(const std::string& path) {
  if (!IsFolder(path)) return SizeOfFile(path);
  FileSize size{.name = path};
  const absl::StatusOr<SampleList> list = ListSamples(path);
  if (!list.ok()) return size;
  for (const SampleList::Entry& sample : list->samples) {
    size.bytes += sample.bytes;
  }
  return size;
}

// Returns the paths of all files of an upload, in the order in which they are
// sent.
std::vector<std::string> PathsOf(const DatasetUpload& upload) {
  std::vector<std::string> paths = {upload.file};
  if (!upload.labels_file.empty()) paths.push_back(upload.labels_file);
  paths.insert(paths.end(), upload.more_files.begin(), upload.more_files.end());
  if (!upload.tokenizer_file.empty()) paths.push_back(upload.tokenizer_file);
  return paths;
}

// Checks the texts and the size of an upload, before its files are read.
absl::Status CheckBeforeReading(Client& client, const DatasetUpload& upload) {
  v1::UploadDatasetRequest::Header header;
  header.set_name(upload.name);
  *header.mutable_layout() = upload.layout;
  std::vector<FileSize> sizes;
  for (const std::string& path : PathsOf(upload)) {
    header.add_files()->set_file_name(BaseName(path));
    sizes.push_back(SizeOf(path));
  }
  const absl::Status texts = CheckTexts(header);
  if (!texts.ok()) return texts;
  return CheckDatasetSize(client, sizes);
}

// Reads a file and describes it. Without a client there is no progress and no
// stop.
absl::StatusOr<v1::DatasetFile> Describe(const Client* client,
                                         const std::string& path,
                                         v1::DatasetFile::Role role) {
  const absl::StatusOr<ChunkReader> chunks = OpenChunks(path, 0);
  if (!chunks.ok()) return chunks.status();
  const absl::StatusOr<FileFacts> facts =
      client == nullptr ? DescribeChunks(path, *chunks)
                        : DescribeForUpload(*client, SizeOf(path), *chunks);
  if (!facts.ok()) return facts.status();
  v1::DatasetFile description;
  description.set_role(role);
  description.set_file_name(BaseName(path));
  description.set_total_bytes(facts->bytes);
  description.set_sha256(facts->sha256);
  return description;
}

// Makes the messages of one upload, one at a time.
class MessageSource {
 public:
  MessageSource(const DatasetUpload& upload,
                const std::vector<v1::DatasetFile>& files,
                const UploadProgress& progress, UploadTries& tries)
      : upload_(upload),
        files_(files),
        progress_(progress),
        tries_(tries),
        paths_(PathsOf(upload)) {
    for (const v1::DatasetFile& file : files) total_ += file.total_bytes();
  }

  // Asks where each file begins. Call it first.
  absl::Status Begin() {
    tries_.Start();
    for (const v1::DatasetFile& file : files_) {
      absl::StatusOr<v1::UploadPart> part =
          tries_.PartOf(file.file_name(), {file.total_bytes(), file.sha256()});
      if (!part.ok()) return part.status();
      parts_.push_back(*std::move(part));
    }
    return absl::OkStatus();
  }

  // Returns the bytes that were sent or skipped.
  uint64_t sent() const { return sent_; }

  absl::StatusOr<bool> Next(v1::UploadDatasetRequest& message) {
    const absl::Status stop = tries_.CheckStop();
    if (!stop.ok()) return stop;
    if (!header_sent_) {
      FillHeader(*message.mutable_header());
      header_sent_ = true;
      return true;
    }
    while (index_ < paths_.size()) {
      if (chunks_ == nullptr) {
        const uint64_t offset = parts_[index_].offset();
        absl::StatusOr<ChunkReader> chunks = OpenChunks(paths_[index_], offset);
        if (!chunks.ok()) return chunks.status();
        chunks_ = *std::move(chunks);
        sent_of_file_ = offset;
        sent_ += offset;
      }
      std::string& data = *message.mutable_chunk()->mutable_data();
      absl::Status read = chunks_(data);
      if (!read.ok()) return read;
      if (!data.empty()) return Count(message);
      // The server has the digest of the first reading. A file that has shrunk
      // would be refused there with a less clear text.
      if (sent_of_file_ != files_[index_].total_bytes()) return Changed();
      chunks_ = nullptr;
      ++index_;
    }
    return false;
  }

 private:
  void FillHeader(v1::UploadDatasetRequest::Header& header) {
    header.set_name(upload_.name);
    *header.mutable_layout() = upload_.layout;
    header.mutable_layout()->set_format(GivenFormat(upload_));
    for (const v1::DatasetFile& file : files_) *header.add_files() = file;
    for (const v1::UploadPart& part : parts_) *header.add_parts() = part;
  }

  absl::StatusOr<bool> Count(v1::UploadDatasetRequest& message) {
    message.mutable_chunk()->set_file_index(static_cast<uint32_t>(index_));
    const uint64_t bytes = message.chunk().data().size();
    sent_of_file_ += bytes;
    sent_ += bytes;
    // A file that grows all the time would otherwise never end.
    if (sent_of_file_ > files_[index_].total_bytes()) return Changed();
    if (progress_) progress_(sent_, total_);
    return true;
  }

  absl::Status Changed() const {
    return absl::DataLossError(
        absl::StrCat(paths_[index_], " changed while it was uploaded: it had ",
                     files_[index_].total_bytes(), " bytes; upload it again"));
  }

  const DatasetUpload& upload_;
  const std::vector<v1::DatasetFile>& files_;
  const UploadProgress& progress_;
  UploadTries& tries_;
  std::vector<std::string> paths_;
  std::vector<v1::UploadPart> parts_;
  ChunkReader chunks_;
  size_t index_ = 0;
  uint64_t sent_of_file_ = 0;
  uint64_t sent_ = 0;
  uint64_t total_ = 0;
  bool header_sent_ = false;
};

absl::StatusOr<v1::Dataset> SendDatasetOnce(Client& client,
                                            MessageSource& source) {
  const absl::Status begun = source.Begin();
  if (!begun.ok()) return begun;
  return client.StreamDataset([&source](v1::UploadDatasetRequest& message) {
    return source.Next(message);
  });
}

absl::StatusOr<v1::Dataset> Send(Client& client, const DatasetUpload& upload,
                                 const std::vector<v1::DatasetFile>& files,
                                 const UploadProgress& progress) {
  UploadTries tries(client);
  while (true) {
    MessageSource source(upload, files, progress, tries);
    const absl::StatusOr<v1::Dataset> dataset = SendDatasetOnce(client, source);
    if (dataset.ok() || !tries.Again(dataset.status(), source.sent())) {
      return dataset;
    }
  }
}

bool SameArrays(const google::protobuf::Map<std::string, std::string>& a,
                const google::protobuf::Map<std::string, std::string>& b) {
  return std::map<std::string, std::string>(a.begin(), a.end()) ==
         std::map<std::string, std::string>(b.begin(), b.end());
}

bool SameCategories(const v1::ColumnCategories& a,
                    const v1::ColumnCategories& b) {
  return a.column() == b.column() &&
         std::equal(a.values().begin(), a.values().end(), b.values().begin(),
                    b.values().end());
}

bool SameCsvOptions(const v1::DatasetLayout& a, const v1::DatasetLayout& b) {
  return a.missing() == b.missing() && a.text() == b.text() &&
         a.text_length() == b.text_length() &&
         std::equal(a.text_columns().begin(), a.text_columns().end(),
                    b.text_columns().begin(), b.text_columns().end()) &&
         std::equal(a.skipped_columns().begin(), a.skipped_columns().end(),
                    b.skipped_columns().begin(), b.skipped_columns().end()) &&
         std::equal(a.categories().begin(), a.categories().end(),
                    b.categories().begin(), b.categories().end(),
                    SameCategories);
}

bool SameImageOptions(const v1::DatasetLayout& a, const v1::DatasetLayout& b) {
  const auto grey = [](const v1::DatasetLayout& layout) {
    return layout.image_channels() == 1;
  };
  const auto stretch = [](const v1::DatasetLayout& layout) {
    return layout.image_fit() == v1::DatasetLayout::STRETCH;
  };
  return a.image_height() == b.image_height() &&
         a.image_width() == b.image_width() && grey(a) == grey(b) &&
         stretch(a) == stretch(b);
}

bool SameAudioOptions(const v1::DatasetLayout& a, const v1::DatasetLayout& b) {
  return a.audio().samples() == b.audio().samples() &&
         a.audio().seconds() == b.audio().seconds() &&
         a.audio().rate() == b.audio().rate();
}

// Returns whether both layouts have the same format. One that names none takes
// that of the other.
bool SameFormat(const v1::DatasetLayout& a, const v1::DatasetLayout& b) {
  return a.format() == b.format() ||
         a.format() == v1::DATASET_FORMAT_UNSPECIFIED ||
         b.format() == v1::DATASET_FORMAT_UNSPECIFIED;
}

// Returns whether both layouts give the same arrays for the same files.
bool SameLayout(const v1::DatasetLayout& a, const v1::DatasetLayout& b) {
  const auto column = [](const v1::DatasetLayout& layout) {
    return layout.has_label_column() ? layout.label_column() : -1;
  };
  const auto array = [](const v1::DatasetLayout& layout) {
    // An unset field means its default, so both spellings are the same layout.
    return layout.labels_array().empty() ? "y" : layout.labels_array();
  };
  return SameFormat(a, b) && column(a) == column(b) && array(a) == array(b) &&
         std::equal(a.label_columns().begin(), a.label_columns().end(),
                    b.label_columns().begin(), b.label_columns().end()) &&
         std::equal(a.label_names().begin(), a.label_names().end(),
                    b.label_names().begin(), b.label_names().end()) &&
         SameCsvOptions(a, b) && SameImageOptions(a, b) &&
         SameAudioOptions(a, b) &&
         SameArrays(a.input_arrays(), b.input_arrays()) &&
         SameArrays(a.target_arrays(), b.target_arrays());
}

bool SameBytes(const v1::Dataset& dataset,
               const std::vector<v1::DatasetFile>& files) {
  if (static_cast<size_t>(dataset.files_size()) != files.size()) return false;
  for (size_t i = 0; i < files.size(); ++i) {
    if (dataset.files(static_cast<int>(i)).sha256() != files[i].sha256()) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::vector<v1::DatasetFile>> DescribeAll(
    const Client* client, const DatasetUpload& upload) {
  const bool two = !upload.labels_file.empty();
  absl::StatusOr<v1::DatasetFile> first =
      Describe(client, upload.file,
               two ? v1::DatasetFile::FEATURES : v1::DatasetFile::TABLE);
  if (!first.ok()) return first.status();
  std::vector<v1::DatasetFile> files = {*std::move(first)};
  if (two) {
    absl::StatusOr<v1::DatasetFile> labels =
        Describe(client, upload.labels_file, v1::DatasetFile::LABELS);
    if (!labels.ok()) return labels.status();
    files.push_back(*std::move(labels));
  }
  const v1::DatasetFile::Role role = RoleOfMoreFiles(upload);
  for (const std::string& path : upload.more_files) {
    absl::StatusOr<v1::DatasetFile> more = Describe(client, path, role);
    if (!more.ok()) return more.status();
    files.push_back(*std::move(more));
  }
  if (!upload.tokenizer_file.empty()) {
    absl::StatusOr<v1::DatasetFile> tokenizer =
        Describe(client, upload.tokenizer_file, v1::DatasetFile::TOKENIZER);
    if (!tokenizer.ok()) return tokenizer.status();
    files.push_back(*std::move(tokenizer));
  }
  return files;
}

// Checks an upload as far as possible before its files are read, then reads and
// describes them.
absl::StatusOr<std::vector<v1::DatasetFile>> DescribeChecked(
    Client& client, const DatasetUpload& upload) {
  const absl::Status checked = CheckBeforeReading(client, upload);
  if (!checked.ok()) return checked;
  return DescribeAll(&client, upload);
}

}  // namespace

absl::StatusOr<std::vector<v1::DatasetFile>> DescribeFiles(
    const DatasetUpload& upload) {
  return DescribeAll(nullptr, upload);
}

absl::StatusOr<v1::Dataset> UploadDataset(Client& client,
                                          const DatasetUpload& upload,
                                          const UploadProgress& progress) {
  absl::StatusOr<std::vector<v1::DatasetFile>> files =
      DescribeChecked(client, upload);
  if (!files.ok()) return files.status();
  return Send(client, upload, *files, progress);
}

absl::StatusOr<EnsuredDataset> EnsureDataset(Client& client,
                                             const DatasetUpload& upload,
                                             const UploadProgress& progress) {
  v1::GetDatasetRequest request;
  request.set_name(upload.name);
  absl::StatusOr<v1::Dataset> present = client.GetDataset(request);
  // Only a name that is free may be taken. Any other error says nothing about
  // it.
  if (!present.ok() && !absl::IsNotFound(present.status())) {
    return present.status();
  }
  // A stored dataset may be larger than today's limit.
  absl::StatusOr<std::vector<v1::DatasetFile>> files =
      present.ok() ? DescribeAll(&client, upload)
                   : DescribeChecked(client, upload);
  if (!files.ok()) return files.status();
  if (present.ok()) {
    const bool same = SameBytes(*present, *files);
    if (same && SameLayout(present->layout(), upload.layout)) {
      return EnsuredDataset{*present, false};
    }
    return absl::AlreadyExistsError(
        absl::StrCat("a dataset named '", upload.name, "' exists with other ",
                     same ? "options" : "content", " than ", upload.file,
                     "; name another in data.dataset, or delete it with "
                     "`gpupool datasets delete ",
                     upload.name, "`"));
  }
  absl::StatusOr<v1::Dataset> stored = Send(client, upload, *files, progress);
  if (!stored.ok()) return stored.status();
  return EnsuredDataset{*std::move(stored), true};
}

}  // namespace gpupool::client
