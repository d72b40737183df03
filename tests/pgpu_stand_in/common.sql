-- STAND-IN for the extension pgpu, for tests: it has pgpu's signatures, messages and effects, and no GPU. Its
-- "centroids" are rows of the table. What all of its versions share; none of this is in pgpu itself.

-- What the function was called with, for a test to read.
CREATE TABLE stand_in_calls (version text, arguments jsonb);

CREATE FUNCTION stand_in_fails_as_set(step text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    failure text := coalesce(current_setting('pgpu_stand_in.fails', true), '');
BEGIN
    IF failure = 'no-gpu' AND step = 'start' THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'vectors->tensor transformation failed: CuvsError('
            'CuvsError { code: CUVS_ERROR, text: "std::bad_alloc: CUDA error (failed to allocate 768000 bytes) at: '
            'cudaErrorInsufficientDriver CUDA driver version is insufficient for CUDA runtime version" })';
    ELSIF failure = 'memory' AND step = 'middle' THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'vectors->tensor transformation failed: CuvsError { '
            'text: "std::bad_alloc: out_of_memory: CUDA error" }';
    END IF;
END
$$;

CREATE FUNCTION stand_in_check(table_name text, leaves bigint, samples bigint, operator text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
BEGIN
    IF cardinality(parse_ident(table_name)) <> 2 THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = format(
            'Invalid identifier ''%s'': must contain schema and table name', table_name);
    ELSIF operator NOT IN ('ip', 'l2', 'cos') THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = format(
            'Invalid distance_operator "%s": expected one of "ip", "l2", "cos"', operator);
    ELSIF length(table_name || '_centroids') > 63 THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'generated centroid table name is too long';
    ELSIF leaves <= 2 THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'cluster count must be larger than 2';
    END IF;
    EXECUTE format('SELECT count(*) FROM %s', table_name) INTO rows;
    IF samples > rows THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = format(
            'The table has fewer records (%s) than the desired number of samples (%s) based on '
            'cluster_count*sampling_factor. Unable to continue', rows, samples);
    END IF;
    PERFORM pgpu.stand_in_fails_as_set('start');
END
$$;

-- Rows at equal intervals among the first `samples` are the centroids; coarse ones, if any, are at equal intervals among these.
CREATE FUNCTION stand_in_centroids(
    table_name text, column_name text, samples bigint, coarse int, leaves int, spherical bool, id_type text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    made text := table_name || '_centroids';
    dimensions int;
    of_leaves text := CASE WHEN spherical THEN 'l2_normalize(v)' ELSE 'v' END;
BEGIN
    RAISE INFO 'Storing % centroids in %', coarse + leaves, made;
    RAISE NOTICE 'Deleting old centroids table (if it exists from a previous run)';
    EXECUTE format('DROP TABLE IF EXISTS %s', made);
    PERFORM pgpu.stand_in_fails_as_set('middle');
    EXECUTE format('SELECT vector_dims(%I) FROM %s LIMIT 1', column_name, table_name) INTO dimensions;
    EXECUTE format('CREATE TABLE %s (id %s, parent int, vector vector(%s))', made, id_type, dimensions);
    EXECUTE format('INSERT INTO %s VALUES (0, NULL, %L)', made, array_fill(0, ARRAY[dimensions])::vector);
    EXECUTE format(
        'INSERT INTO %1$s SELECT %2$s + row_number() OVER (), 0, %3$s FROM ('
        ' SELECT %4$I AS v, row_number() OVER () - 1 AS n, count(*) OVER () / %5$s AS step'
        ' FROM (SELECT * FROM %6$s LIMIT %7$s) AS sampled'
        ') AS numbered WHERE n %% step = 0 LIMIT %5$s',
        made, coarse, of_leaves, column_name, leaves, table_name, samples);
    IF coarse > 0 THEN
        EXECUTE format(
            'INSERT INTO %1$s SELECT row_number() OVER (), 0, vector FROM %1$s'
            ' WHERE id > %2$s AND (id - %2$s - 1) %% (%3$s / %2$s) = 0 LIMIT %2$s', made, coarse, leaves);
        IF current_setting('pgpu_stand_in.fails', true) = 'childless' THEN  -- nobody's nearest
            EXECUTE format('UPDATE %s SET vector = %L WHERE id = 1', made,
                array_fill(1000, ARRAY[dimensions])::vector);
        END IF;
        EXECUTE format(
            'UPDATE %1$s AS leaf SET parent = (SELECT id FROM %1$s AS coarse WHERE id BETWEEN 1 AND %2$s'
            ' ORDER BY coarse.vector <-> leaf.vector LIMIT 1) WHERE id > %2$s', made, coarse);
    END IF;
END
$$;
