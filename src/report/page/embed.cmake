# Writes page.html, page.css and page.js as string constants (html_page.h) of the room ${ROOM} to ${OUT}.
set(text "#include \"${ROOM}/html_page.h\"\n\nnamespace assay::${ROOM} {\n\n")
foreach(part html css js)
  file(READ ${PAGE}/page.${part} content)
  string(APPEND text "const std::string_view kPage_${part} = R\"~page~(${content})~page~\";\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace assay::${ROOM}\n")
