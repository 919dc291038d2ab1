# Writes page.html, page.css and page.js as string constants (html_page.h) to ${OUT}.
set(text "#include \"report/html_page.h\"\n\nnamespace assay::report {\n\n")
foreach(part html css js)
  file(READ ${PAGE}/page.${part} content)
  string(APPEND text "const std::string_view kPage_${part} = R\"~page~(${content})~page~\";\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace assay::report\n")
