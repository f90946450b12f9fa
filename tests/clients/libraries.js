// Asks the query it is given by a library of Node: `node libraries.js LIBRARY QUERY` prints the rows
// of the query as it stands, and those of the same query as the library writes it.

const fs = require('fs');

const [library, asked] = process.argv.slice(2);
const {PGPORT: port, PGPASSWORD: password, PGSSLROOTCERT: certificate} = process.env;
const ssl = {ca: fs.readFileSync(certificate, 'utf8')};
const place = {host: 'localhost', port: Number(port), user: 'alice', password, ssl,
  database: 'tallyveil'};
const print = rows => rows.forEach(({city, n}) => console.log(`${city}|${n}`));

const libraries = {
  async 'drizzle-orm'() {
    const {drizzle} = require('drizzle-orm/node-postgres');
    const {asc, count, sql} = require('drizzle-orm');
    const {pgTable, text} = require('drizzle-orm/pg-core');
    const {Pool} = require('pg');
    const pool = new Pool(place);
    const db = drizzle(pool);
    print((await db.execute(sql.raw(asked))).rows);
    const patients = pgTable('patients', {city: text('city')});
    print(await db.select({city: patients.city, n: count()}).from(patients)
      .groupBy(patients.city).orderBy(asc(patients.city)));
    await pool.end();
  },

  async knex() {
    const knex = require('knex')({client: 'pg', connection: place});
    print((await knex.raw(asked)).rows);
    print(await knex('patients').select('city').count('* as n').groupBy('city').orderBy('city'));
    await knex.destroy();
  },

  async kysely() {
    const {Kysely, PostgresDialect, sql} = require('kysely');
    const {Pool} = require('pg');
    const db = new Kysely({dialect: new PostgresDialect({pool: new Pool(place)})});
    print((await sql.raw(asked).execute(db)).rows);
    print(await db.transaction().setIsolationLevel('serializable').execute(block =>
      block.selectFrom('patients').select(({fn}) => ['city', fn.countAll().as('n')])
        .groupBy('city').orderBy('city').execute()));
    const tables = await db.introspection.getTables();
    console.log(tables.filter(({schema}) => schema === 'public').map(({name}) => name).join(' '));
    await db.destroy();
  },

  async postgres() {
    const sql = require('postgres')({...place, onnotice: () => {}});
    print(await sql.unsafe(asked));
    print(await sql.begin('isolation level serializable', block =>
      block`SELECT city, count(*) AS n FROM patients GROUP BY city ORDER BY city`));
    const cities = ['Paris', 'Rome'];
    print(await sql`SELECT city, count(*) AS n FROM patients GROUP BY city
      HAVING city IN ${sql(cities)} ORDER BY city`);
    await sql.end();
  },

  async sequelize() {
    const {DataTypes, QueryTypes, Sequelize, Transaction, fn, col} = require('sequelize');
    const db = new Sequelize('tallyveil', 'alice', password, {
      host: 'localhost', port, dialect: 'postgres', logging: false, dialectOptions: {ssl},
    });
    await db.authenticate();
    print(await db.query(asked, {type: QueryTypes.SELECT}));
    const isolationLevel = Transaction.ISOLATION_LEVELS.SERIALIZABLE;
    const Patient = db.define('patient', {city: DataTypes.TEXT},
      {tableName: 'patients', timestamps: false});
    Patient.removeAttribute('id');
    print(await db.transaction({isolationLevel}, transaction => Patient.findAll({
      attributes: ['city', [fn('COUNT', col('*')), 'n']], group: ['city'], order: ['city'],
      raw: true, transaction,
    })));
    await db.close();
  },

  async slonik() {
    const {createPool, sql} = require('slonik');
    const url = `postgresql://alice:${encodeURIComponent(password)}@localhost:${port}/tallyveil`;
    const pool = await createPool(url, {ssl});
    const query = sql.unsafe`SELECT city, count(*) AS n FROM patients GROUP BY city ORDER BY city`;
    print(await pool.any({...query, sql: asked}));
    print(await pool.transaction(block => block.any(query)));
    await pool.end();
  },

  async typeorm() {
    require('reflect-metadata');
    const {DataSource} = require('typeorm');
    const {user: username, ...rest} = place;
    const db = new DataSource({type: 'postgres', username, ...rest});
    await db.initialize();
    print(await db.query(asked));
    print(await db.transaction('SERIALIZABLE', block => block.createQueryBuilder()
      .select('city').addSelect('count(*)', 'n').from('patients', 'p').groupBy('city')
      .orderBy('city').getRawMany()));
    await db.destroy();
  },
};

libraries[library]();
