# cmake -DROOT=... -DFILES=a;b -DOUTPUT=... -P embed.cmake
# Writes a source file with the bytes of ROOT/a, ROOT/b as the array
# kEmbeddedFiles of {name, bytes}; see server/http/web_files.h.
set(text "#include \"server/http/web_files.h\"\n\nnamespace gpupool::server {\n")
set(rows "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} digits HEX)
  string(REGEX REPLACE "(..)" "0x\\1," digits "${digits}")
  string(APPEND text "static constexpr unsigned char kBytes${index}[] = {${digits}};\n")
  string(APPEND rows "    {\"${file}\", {reinterpret_cast<const char*>(kBytes${index}), sizeof(kBytes${index})}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "${text}
static const WebFile kFiles[] = {
${rows}};

absl::Span<const WebFile> WebFiles() { return kFiles; }

}  // namespace gpupool::server
")
