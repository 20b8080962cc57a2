# includes.awk - lists every #include of the files given: file, line, form (quote or angle),
# name; tab between them. Comments before the # do not hide one, and neither do blanks.
/^[ \t]*(\/\*.*\*\/)?[ \t]*#[ \t]*include[ \t]*["<]/ {
    text = $0
    sub(/^[^"<]*/, "", text)
    form = substr(text, 1, 1) == "<" ? "angle" : "quote"
    text = substr(text, 2)
    sub(/[">].*$/, "", text)
    printf "%s\t%d\t%s\t%s\n", FILENAME, FNR, form, text
}
