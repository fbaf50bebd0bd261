#include "engine/memory/snapshot_file.h"

#include "absl/strings/string_view.h"
#include "engine/base/check.h"
#include "engine/memory/pickle_writer.h"

namespace gpupool::engine {
namespace {

constexpr int kMostDevices = 64;
constexpr absl::string_view kOwnerSeparator = " / ";

// Writes a list of one frame, or of none without an owner.
void WriteFrames(PickleWriter& writer, absl::string_view owner) {
  writer.BeginList();
  if (!owner.empty()) {
    const size_t at = owner.find(kOwnerSeparator);
    const bool split = at != absl::string_view::npos;
    writer.BeginDictionary();
    writer.Key("filename");
    writer.String(owner.substr(0, at));
    writer.Key("name");
    writer.String(split ? owner.substr(at + kOwnerSeparator.size()) : "");
    writer.Key("line");
    writer.Number(0);
    writer.EndDictionary();
  }
  writer.EndList();
}

void WriteNumber(PickleWriter& writer, absl::string_view key, uint64_t value) {
  writer.Key(key);
  writer.Number(value);
}

absl::string_view StateOf(const BlockFacts& block) {
  if (block.free) return "inactive";
  return block.pending_free ? "active_pending_free" : "active_allocated";
}

// Writes the history of a block, where the viewer of PyTorch 1 looks for
// owners.
void WriteBlockHistory(PickleWriter& writer, const BlockFacts& block,
                       uint64_t address) {
  writer.Key("history");
  writer.BeginList();
  writer.BeginDictionary();
  WriteNumber(writer, "addr", address);
  WriteNumber(writer, "real_size", block.requested_bytes);
  writer.Key("frames");
  WriteFrames(writer, block.owner);
  writer.EndDictionary();
  writer.EndList();
}

void WriteBlock(PickleWriter& writer, const BlockFacts& block,
                uint64_t address) {
  writer.BeginDictionary();
  WriteNumber(writer, "address", address);
  WriteNumber(writer, "size", block.bytes);
  WriteNumber(writer, "requested_size", block.requested_bytes);
  writer.Key("state");
  writer.String(StateOf(block));
  writer.Key("frames");
  WriteFrames(writer, block.owner);
  if (!block.owner.empty()) WriteBlockHistory(writer, block, address);
  writer.EndDictionary();
}

void WriteSegment(PickleWriter& writer, const SegmentFacts& segment,
                  int device) {
  uint64_t allocated = 0, active = 0, requested = 0;
  for (const BlockFacts& block : segment.blocks) {
    allocated += block.free || block.pending_free ? 0 : block.bytes;
    active += block.free ? 0 : block.bytes;
    requested += block.requested_bytes;
  }
  writer.BeginDictionary();
  WriteNumber(writer, "device", static_cast<uint64_t>(device));
  WriteNumber(writer, "address", segment.address);
  WriteNumber(writer, "total_size", segment.bytes);
  WriteNumber(writer, "allocated_size", allocated);
  WriteNumber(writer, "active_size", active);
  WriteNumber(writer, "requested_size", requested);
  // All streams share the range, so segments name the default stream.
  WriteNumber(writer, "stream", kDefaultStream);
  writer.Key("segment_type");
  writer.String("large");
  writer.Key("segment_pool_id");
  writer.Pair(0, 0);
  writer.Key("is_expandable");
  writer.Boolean(true);
  writer.Key("frames");
  WriteFrames(writer, "");
  writer.Key("blocks");
  writer.BeginList();
  for (const BlockFacts& block : segment.blocks) {
    WriteBlock(writer, block, segment.address + block.offset);
  }
  writer.EndList();
  writer.EndDictionary();
}

// Writes an event. The address of a failed request holds the free bytes.
void WriteEvent(PickleWriter& writer, const MemoryEvent& event) {
  const bool failed = event.action == MemoryAction::kOutOfMemory;
  writer.BeginDictionary();
  writer.Key("action");
  writer.String(MemoryActionName(event.action));
  WriteNumber(writer, failed ? "device_free" : "addr", event.address);
  WriteNumber(writer, "size", event.bytes);
  WriteNumber(writer, "stream", event.stream);
  WriteNumber(writer, "time_us", static_cast<uint64_t>(event.time_us));
  writer.Key("frames");
  WriteFrames(writer, event.owner);
  writer.EndDictionary();
}

void WriteSegments(PickleWriter& writer, const MemorySnapshot& snapshot,
                   int device) {
  writer.BeginList();
  for (const SegmentFacts& segment : snapshot.segments) {
    WriteSegment(writer, segment, device);
  }
  writer.EndList();
}

}  // namespace

std::string SnapshotPickle(const MemorySnapshot& snapshot, int device) {
  GPUPOOL_CHECK(device >= 0 && device < kMostDevices);
  PickleWriter writer;
  writer.BeginDictionary();
  writer.Key("segments");
  WriteSegments(writer, snapshot, device);
  writer.Key("device_traces");
  writer.BeginList();
  // The position of a list of events is its device's number.
  for (int i = 0; i <= device; ++i) {
    writer.BeginList();
    if (i == device) {
      for (const MemoryEvent& event : snapshot.events) {
        WriteEvent(writer, event);
      }
    }
    writer.EndList();
  }
  writer.EndList();
  writer.EndDictionary();
  return writer.Take();
}

}  // namespace gpupool::engine
